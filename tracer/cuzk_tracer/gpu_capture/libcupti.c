/* Finding and opening libcupti at run time, so that building needs no CUDA and programs without CUDA start all the same. */
#include "capture.h"

#include <dlfcn.h>

#include "libcupti.h"

#ifndef CUZK_GPU__TOOLKIT
#define CUZK_GPU__TOOLKIT "/usr/local/cuda"
#define CUZK_GPU__SONAME "libcupti.so."
#endif

struct cuzk_cupti cuzk_cupti;

static int resolve(void *library)
{
    char symbol[64];
#define FUNCTION(name, arguments)                            \
    snprintf(symbol, sizeof symbol, "cupti%s", #name);       \
    *(void **)&cuzk_cupti.name = dlsym(library, symbol);     \
    if (!cuzk_cupti.name)                                    \
        return cuzk_gpu__fail("libcupti lacks the function", symbol);
    CUPTI__FUNCTIONS(FUNCTION)
#undef FUNCTION
    return 1;
}

static int driver_version(void)
{
    int version = 0, (*get)(int *);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&get = library ? dlsym(library, "cuDriverGetVersion") : NULL;
    return get && get(&version) == 0 ? version : 0;
}

static void *open_in(const char *folder, const char *below, int major)
{
    char path[512];
    if (!folder || !folder[0])
        return NULL;
    snprintf(path, sizeof path, "%s/%s/" CUZK_GPU__SONAME "%d", folder, below, major);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The copy this process has already, else one named by $CUZK_CUPTI (files, separated by colons: cuzk-top lists the
 * wheels' there), else the linker's, else the toolkit's. */
static void *find_library(void)
{
    static const char *const below[] = {"lib64", "extras/CUPTI/lib64", "lib"};
    int driver = driver_version(), majors[] = {13, 12}, i, k;
    char soname[24], roots[3][256], list[4096], *path, *rest;
    const char *named = getenv("CUZK_CUPTI"), *home = getenv("CUDA_HOME");
    void *library = NULL;
    for (i = 0; i < 2 && !library; i++) {
        snprintf(soname, sizeof soname, CUZK_GPU__SONAME "%d", majors[i]);
        library = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    }
    snprintf(list, sizeof list, "%s", named ? named : "");
    for (path = strtok_r(list, ":", &rest); path && !library; path = strtok_r(NULL, ":", &rest))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (i = 0; i < 2 && !library; i++) {
        if (driver && driver < majors[i] * 1000) /* a CUPTI newer than the driver does not work with it */
            continue;
        snprintf(soname, sizeof soname, CUZK_GPU__SONAME "%d", majors[i]);
        library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
        snprintf(roots[0], sizeof roots[0], "%s", home ? home : "");
        snprintf(roots[1], sizeof roots[1], CUZK_GPU__TOOLKIT);
        snprintf(roots[2], sizeof roots[2], CUZK_GPU__TOOLKIT "-%d", majors[i]);
        for (k = 0; k < 9 && !library; k++)
            library = open_in(roots[k / 3], below[k % 3], majors[i]);
    }
    return library;
}

/* The versions whose records cupti_abi.h describes. */
static int known(uint32_t version)
{
    return (version >= 18 && version <= 99) /* 12.0 and later */ || (version >= 130000 && version <= 139999);
}

int cuzk_gpu__load(void)
{
    void *library = find_library();
    Dl_info where;
    char text[640];
    if (!library)
        return cuzk_gpu__fail("no kernels and copies: libcupti.so was not found",
                              "install the CUDA toolkit's CUPTI or the Python package nvidia-cuda-cupti");
    if (!resolve(library))
        return 0;
    if (dladdr((void *)cuzk_cupti.GetVersion, &where) && where.dli_fname)
        snprintf(cuzk_cupti.path, sizeof cuzk_cupti.path, "%s", where.dli_fname);
    if (cuzk_cupti.GetVersion(&cuzk_cupti.version) != CUPTI__SUCCESS)
        cuzk_cupti.version = 0;
    snprintf(text, sizeof text, "%s is version %u", cuzk_cupti.path, cuzk_cupti.version);
    return known(cuzk_cupti.version)
               ? 1
               : cuzk_gpu__fail("no kernels and copies: this program reads libcupti of CUDA 12 and 13", text);
}

const char *cuzk_gpu__said(int result)
{
    const char *text = NULL;
    if (cuzk_cupti.GetResultString(result, &text) != CUPTI__SUCCESS || !text)
        text = "unknown error";
    return text;
}
