/* Spans that Python code has open, thread by thread. */
#ifndef CUZK_NATIVE_OPEN_SPANS_H
#define CUZK_NATIVE_OPEN_SPANS_H

#include "base.h"

/* Spans that Python code of this thread has open. A key is the object that `with` was given; it is compared, never
 * followed. An entry whose span records nothing was entered while its level was off. */
typedef struct {
    const void *key;
    cuzk_trace_span span;
} Entry;

static __thread struct {
    Entry *entries;
    Py_ssize_t count, capacity;
    int claiming;
} open_here;

static pthread_key_t entries_key;

static void free_entries(void *entries)
{
    free(entries);
    memset(&open_here, 0, sizeof open_here);
}

static void forget_entries(void) /* in a forked child: what was open is the parent's */
{
    open_here.count = 0;
    open_here.claiming = 0;
}

static Entry *new_entry(const void *key)
{
    Entry *entry;
    if (open_here.count == open_here.capacity) {
        Py_ssize_t capacity = open_here.capacity ? 2 * open_here.capacity : 128;
        Entry *entries = realloc(open_here.entries, (size_t)capacity * sizeof *entries);
        if (!entries)
            return NULL;
        open_here.entries = entries;
        open_here.capacity = capacity;
        pthread_setspecific(entries_key, entries);
    }
    entry = open_here.entries + open_here.count++;
    entry->key = key;
    entry->span.bits = 0;
    return entry;
}

/* What Python calls this thread, for its slot; a thread that threading does not know keeps its own name. */
static PyObject *thread_name(void)
{
    PyObject *threading, *active, *ident, *thread, *name = NULL;
    if ((int)syscall(SYS_gettid) == (int)getpid())
        return NULL;
    threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    active = threading ? PyObject_GetAttrString(threading, "_active") : NULL;
    ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    thread = active && ident && PyDict_Check(active) ? PyDict_GetItemWithError(active, ident) : NULL;
    if (thread)
        name = PyObject_GetAttrString(thread, "name");
    Py_XDECREF(active);
    Py_XDECREF(ident);
    PyErr_Clear();
    return name;
}

/* Tell programs that this one starts which session they come from. */
static void set_environment(void)
{
    const struct cuzk_trace__header *head = cuzk_trace__lib.head;
    PyObject *os = PyImport_ImportModule("os"), *environ = os ? PyObject_GetAttrString(os, "environ") : NULL;
    PyObject *name = PyUnicode_FromString("CUZK_TRACE_PARENT"), *value;
    char text[64];
    int i, at = 0;
    for (i = 0; i < 16; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%02x", head->uuid[i]);
    snprintf(text + at, sizeof text - (size_t)at, ":%u", head->pid);
    value = PyUnicode_FromString(text);
    if (environ && name && value)
        PyObject_SetItem(environ, name, value);
    Py_XDECREF(os);
    Py_XDECREF(environ);
    Py_XDECREF(name);
    Py_XDECREF(value);
    PyErr_Clear();
}

/* This thread's first span: get it a slot under its Python name. */
static void claim(void)
{
    PyObject *type, *value, *trace, *name;
    int is_new = cuzk_trace__lib.head == NULL;
    if (open_here.claiming || cuzk_trace__tls.no_room)
        return;
    open_here.claiming = 1;
    PyErr_Fetch(&type, &value, &trace);
    name = thread_name();
    cuzk_trace__tls.thread_name = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    cuzk_trace__claim();
    cuzk_trace__tls.thread_name = NULL;
    Py_XDECREF(name);
    if (is_new && cuzk_trace__lib.head)
        set_environment();
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    open_here.claiming = 0;
}

static inline void enter(const void *key, cuzk_trace_name *name, int64_t a0, int64_t a1, uint32_t types)
{
    Entry *entry;
    if (!cuzk_trace__on(name)) {
        if (open_here.count)
            new_entry(key); /* so that its exit does not end an outer span of the same name */
        return;
    }
    if (!CUZK_TRACE__LIKELY(cuzk_trace__tls.slot)) {
        claim();
        if (!cuzk_trace__on(name))
            return;
    }
    entry = new_entry(key);
    if (CUZK_TRACE__LIKELY(entry))
        cuzk_trace__begin(&entry->span, name, a0, a1, types);
}

/* `key` is not on top: close what was left open above it, flagged. 0: it is not open here at all. */
static int unwind(const void *key)
{
    Py_ssize_t at = open_here.count - 1;
    while (at >= 0 && open_here.entries[at].key != key)
        at--;
    if (at < 0)
        return 0; /* entered before a fork, or in another thread */
    while (open_here.count - 1 > at) {
        cuzk_trace_span *span = &open_here.entries[--open_here.count].span;
        if (span->bits & CUZK_TRACE__ACTIVE) {
            span->bits = (span->bits & ~(uint32_t)CUZK_TRACE__FAULTS_VALID) | CUZK_TRACE__UNBALANCED;
            cuzk_trace__end(span, CUZK_TRACE__SPAN);
        }
    }
    return 1;
}

static inline void leave(const void *key, int failed)
{
    Entry *entry = open_here.entries + open_here.count - 1;
    if (!open_here.count)
        return;
    if (!CUZK_TRACE__LIKELY(entry->key == key)) {
        if (!unwind(key))
            return;
        entry = open_here.entries + open_here.count - 1;
    }
    open_here.count--;
    if (entry->span.bits)
        cuzk_trace__end(&entry->span, failed ? CUZK_TRACE__SPAN | CUZK_TRACE__ERR : CUZK_TRACE__SPAN);
}

#endif
