/* What a program that is traced unchanged looks like to the capture library: the CUDA driver loads it at cuInit.
 *
 *   driver MS [end|crash|kill|fork|never|exec]
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int init(void)
{
    void *library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL);
    int (*begin)(void);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    *(void **)&begin = dlsym(library, "InitializeInjection");
    return begin();
}

int main(int argc, char **argv)
{
    int ms = argc > 1 ? atoi(argv[1]) : 100, status = 0;
    const char *how = argc > 2 ? argv[2] : "end";
    if (!strcmp(how, "fork")) { /* before CUDA: the child has CUDA of its own */
        pid_t child = fork();
        init();
        usleep(ms * 1000);
        if (child == 0)
            return 7;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (strcmp(how, "never") != 0 && !init())
        return 4;
    if (!strcmp(how, "fork-after")) { /* the child has no CUDA, and leaves by exit */
        pid_t child = fork();
        if (child == 0)
            exit(0);
        waitpid(child, &status, 0);
    }
    usleep(ms * 1000);
    if (!strcmp(how, "crash"))
        *(volatile int *)0 = 1;
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "exec"))
        execl("/proc/self/exe", argv[0], argv[1], "end", (char *)NULL);
    puts("done");
    return 5;
}
