/* cuzk_tracer._native: the API of cuzk_tracer for CPython, on cuzk_trace.h. Only Python's types are made here.
 *
 * What makes `with MSM:` cheap: each name has a heap type of its own whose __enter__ and __exit__ are built-in
 * functions that are bound to the span already. `with` finds them on the type, has nothing to bind, and calls them
 * without a Python frame. The spans with arguments are made the same way and kept for the next call.
 */
#define CUZK_TRACE__SHARED static __attribute__((unused))
#include "cuzk_trace.h" /* first: it asks for _GNU_SOURCE */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* ------------------------------------------------------------------------------- spans open in a thread -- */

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

/* A span argument as the i64 to store; *type gets `flag` when it is a float's bits. What fits neither becomes 0. */
static int64_t argument(PyObject *value, uint32_t *types, uint32_t flag)
{
    PyObject *type, *error, *trace, *number;
    int64_t result = 0;
    int overflow;
    if (CUZK_TRACE__LIKELY(PyLong_CheckExact(value))) {
        result = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : result;
    }
    if (PyFloat_Check(value)) {
        *types |= flag;
        return cuzk_trace_f64(PyFloat_AS_DOUBLE(value));
    }
    PyErr_Fetch(&type, &error, &trace);
    number = PyNumber_Index(value);
    if (number) {
        result = PyLong_AsLongLongAndOverflow(number, &overflow);
        result = overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : result;
        Py_DECREF(number);
    }
    PyErr_Clear();
    PyErr_Restore(type, error, trace);
    return result;
}

/* The arguments of a function by position: `names` ends in NULL, the first `least` must be there. 0: an exception. */
static int pick(const char *function, const char *const *names, Py_ssize_t least, PyObject *const *args,
                Py_ssize_t count, PyObject *keywords, PyObject **values)
{
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0, most = 0, i, at;
    while (names[most])
        most++;
    if (count > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zd arguments (%zd given)", function, most, count);
        return 0;
    }
    for (i = 0; i < most; i++)
        values[i] = i < count ? args[i] : NULL;
    for (i = 0; i < named; i++) {
        for (at = 0; at < most; at++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), names[at]) == 0)
                break;
        if (at == most || values[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got a wrong or repeated argument '%U'", function,
                         PyTuple_GET_ITEM(keywords, i));
            return 0;
        }
        values[at] = args[count + i];
    }
    for (i = 0; i < least; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() misses its argument '%s'", function, names[i]);
            return 0;
        }
    return 1;
}

/* -------------------------------------------------------------------------------------------- names -- */

static char *utf8(PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    char *copy = bytes ? strdup(PyBytes_AS_STRING(bytes)) : NULL;
    Py_XDECREF(bytes);
    if (bytes && !copy)
        PyErr_NoMemory();
    return copy;
}

/* Anything as a text: str(value), or '' of what is false. */
static PyObject *text_of(PyObject *value)
{
    int is_true = value ? PyObject_IsTrue(value) : 0;
    return is_true < 0 ? NULL : is_true ? PyObject_Str(value) : PyUnicode_FromStringAndSize(NULL, 0);
}

/* Fill in a name that stays for ever. -1 with an exception set. */
static int set_name(cuzk_trace_name *name, PyObject *text, PyObject *a0, PyObject *a1, uint32_t flags, uint32_t limit)
{
    memset(name, 0, sizeof *name);
    name->flags = flags;
    name->level = flags & CUZK_TRACE_STAGE ? CUZK_TRACE_COARSE : CUZK_TRACE_ALL;
    if (!(name->text = utf8(text)) || (a0 && !(name->a0 = utf8(a0))) || (a1 && !(name->a1 = utf8(a1))))
        return -1;
    cuzk_trace__intern(name, limit); /* in the table from now on, or when there is one */
    return 0;
}

/* ------------------------------------------------------------------------------------------- spans -- */

typedef struct Call Call;

typedef struct { /* one a name, the only instance of its type; never freed */
    PyObject_HEAD
    vectorcallfunc vectorcall;
    cuzk_trace_name name;
    PyObject *text;
    Call *spare; /* calls that nobody uses */
} Span;

/* A span with its arguments: MSM(65536, 13). It too is the only instance of its type, and is kept for the next
 * call when nobody holds it and it is not entered. So the functions on its type are bound not to it, which would
 * keep it alive, but to a capsule that points to it. `with` looks up both functions, lets go of the object, and then
 * calls them: one that is entered while nobody holds it was the last to become spare, or somebody has kept a
 * function without its object, and nothing happens. */
struct Call {
    PyObject_HEAD
    Span *span;
    Call *next;
    int64_t a0, a1;
    uint32_t types, entered, held;
};

static PyTypeObject *span_type, *named_type, *call_type, *async_type, *async_call_type, *pending_type, *done_type,
    *plain_type, *decorated_type;

static PyObject *decorate(PyObject *span, PyObject *function);

/* (type, value, traceback), or those after the manager itself: contextlib.ExitStack calls what it finds on a class
 * with the instance. */
static inline int is_error(PyObject *const *args, Py_ssize_t count)
{
    return count >= 3 && args[count - 3] != Py_None;
}

static PyObject *span_enter(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    enter(self, &((Span *)self)->name, 0, 0, 0);
    return Py_NewRef(self);
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    leave(self, is_error(args, count));
    Py_RETURN_NONE;
}

static PyMethodDef span_functions[] = {
    {"__enter__", (PyCFunction)(void (*)(void))span_enter, METH_FASTCALL, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, NULL},
};

#ifndef Py_GIL_DISABLED
#define CALL_OF(self) ((Call *)PyCapsule_GetPointer(self, NULL))
#else /* without the lock nothing is kept, and the functions are ordinary methods */
#define CALL_OF(self) ((Call *)(self))
#endif

static void call_done(Call *call)
{
#ifndef Py_GIL_DISABLED
    if (!call->held && !call->entered) {
        call->next = call->span->spare;
        call->span->spare = call;
    }
#endif
}

static PyObject *call_enter(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    Call *call = CALL_OF(self);
#ifndef Py_GIL_DISABLED
    if (!call->held) {
        if (!call->entered) {
            if (call->span->spare != call)
                Py_RETURN_NONE;
            call->span->spare = call->next;
        }
        call->held = 1;
        _Py_NewReference((PyObject *)call);
    } else
#endif
        Py_INCREF(call);
    call->entered++;
    enter(call, &call->span->name, call->a0, call->a1, call->types);
    return (PyObject *)call;
}

static PyObject *call_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call *call = CALL_OF(self);
    if (call->entered) {
        leave(call, is_error(args, count));
        call->entered--;
        call_done(call);
    }
    Py_RETURN_NONE;
}

static PyMethodDef call_functions[] = {
    {"__enter__", (PyCFunction)(void (*)(void))call_enter, METH_FASTCALL, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))call_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* Put the two functions, bound to `self`, on a type. */
static int bind(PyTypeObject *type, PyObject *self, PyMethodDef *functions)
{
    int i, result = 0;
    for (i = 0; i < 2 && result == 0; i++) {
        PyObject *function = PyCFunction_NewEx(functions + i, self, NULL);
        result = function ? PyObject_SetAttrString((PyObject *)type, functions[i].ml_name, function) : -1;
        Py_XDECREF(function);
    }
    return result;
}

static PyTypeObject *type_of_one(PyTypeObject *base, PyType_Slot *slots, unsigned long flags)
{
    PyType_Spec spec = {"cuzk_tracer.Span", (int)base->tp_basicsize, 0, (unsigned int)(Py_TPFLAGS_DEFAULT | flags), slots};
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    Py_XDECREF(bases);
    return (PyTypeObject *)type;
}

#ifndef Py_GIL_DISABLED
static void call_dealloc(PyObject *self)
{
    Call *call = (Call *)self;
    call->held = 0;
    call_done(call);
}

static Call *new_call(Span *span)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)call_dealloc}, {0, NULL}};
    PyTypeObject *type = type_of_one(call_type, slots, 0);
    Call *call = type ? PyObject_New(Call, type) : NULL;
    PyObject *capsule = call ? PyCapsule_New(call, NULL, NULL) : NULL;
    int result = capsule ? bind(type, capsule, call_functions) : -1;
    Py_XDECREF(type);
    Py_XDECREF(capsule);
    if (result < 0) {
        if (call)
            PyObject_Free(call);
        return NULL;
    }
    call->span = span;
    call->entered = 0;
    return call;
}
#else
static void call_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static Call *new_call(Span *span)
{
    Call *call = PyObject_New(Call, call_type);
    if (call) {
        call->span = span;
        call->entered = 0;
    }
    return call;
}
#endif

/* MSM(a0, a1), or the decorator form MSM(function). */
static PyObject *span_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Span *span = (Span *)self;
    static const char *const arguments[] = {"a0", "a1", NULL};
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *value[2];
    Call *call;
    if (CUZK_TRACE__LIKELY(count == 2 && !names)) {
        value[0] = args[0];
        value[1] = args[1];
    } else if (!pick("span", arguments, 0, args, count, names, value)) {
        return NULL;
    }
    if (value[0] && !PyLong_CheckExact(value[0]) && PyCallable_Check(value[0]))
        return decorate(self, value[0]);
    call = span->spare;
    if (CUZK_TRACE__LIKELY(call != NULL)) {
        span->spare = call->next;
        _Py_NewReference((PyObject *)call);
    } else if (!(call = new_call(span))) {
        return NULL;
    }
    call->types = 0;
    call->a0 = value[0] ? argument(value[0], &call->types, CUZK_TRACE_A0_F64) : 0;
    call->a1 = value[1] ? argument(value[1], &call->types, CUZK_TRACE_A1_F64) : 0;
    call->held = 1;
    return (PyObject *)call;
}

/* A span with arguments, called again: other arguments, or the decorator form. */
static PyObject *call_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *span = (PyObject *)((Call *)self)->span;
    if (!keywords && PyTuple_GET_SIZE(args) == 1 && PyCallable_Check(PyTuple_GET_ITEM(args, 0)))
        return decorate(self, PyTuple_GET_ITEM(args, 0));
    return PyObject_Call(span, args, keywords);
}

static Span *span_of(PyObject *self)
{
    return PyObject_TypeCheck(self, call_type) ? ((Call *)self)->span : (Span *)self;
}

static PyObject *span_name(PyObject *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(span_of(self)->text);
}

static PyObject *span_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<cuzk_tracer.Span %R>", span_of(self)->text);
}

static PyObject *spans; /* (name, a0, a1, stage, faults): the span */

static PyObject *module_span(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "a0", "a1", "stage", "faults", NULL};
    PyType_Slot slots[] = {{0, NULL}};
    PyObject *text, *a0 = NULL, *a1 = NULL, *key, *known;
    PyTypeObject *type = NULL;
    Span *span = NULL;
    int stage = 0, faults = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OOpp:span", names, &text, &a0, &a1, &stage, &faults))
        return NULL;
    text = PyObject_Str(text);
    a0 = text_of(a0);
    a1 = text_of(a1);
    key = text && a0 && a1 ? Py_BuildValue("(OOOii)", text, a0, a1, stage, faults) : NULL;
    known = key ? PyDict_GetItemWithError(spans, key) : NULL;
    if (known) {
        Py_INCREF(known);
    } else if (key && !PyErr_Occurred() && (type = type_of_one(named_type, slots, Py_TPFLAGS_HAVE_VECTORCALL)) != NULL &&
               (span = PyObject_New(Span, type)) != NULL) {
        span->vectorcall = span_call;
        span->text = Py_NewRef(text);
        span->spare = NULL;
        known = (PyObject *)span;
        if (set_name(&span->name, text, a0, a1,
                     (stage ? CUZK_TRACE_STAGE : 0u) | (faults ? CUZK_TRACE_FAULTS : 0u), UINT32_MAX) < 0 ||
            bind(type, known, span_functions) < 0 || PyDict_SetItem(spans, key, known) < 0)
            known = NULL; /* and what was made stays: memory has run out */
    }
    Py_XDECREF(type);
    Py_XDECREF(key);
    Py_XDECREF(text);
    Py_XDECREF(a0);
    Py_XDECREF(a1);
    return known;
}

/* -------------------------------------------------------------------------------------- async spans -- */

typedef struct {
    PyObject_HEAD
    cuzk_trace_name name;
    PyObject *text;
} Async;

typedef struct { /* with arguments */
    PyObject_HEAD
    Async *span;
    int64_t a0, a1;
    uint32_t types;
} AsyncCall;

/* An async span that is open, and the one around it in the same context: the value of the context variable. */
typedef struct Pending {
    PyObject_HEAD
    struct Pending *around;
    Async *owner;
    cuzk_trace_span span;
    uint32_t generation; /* of the slot it began in */
} Pending;

static PyObject *current, *asyncs; /* the context variable; (name, a0, a1, stage): the span */

static void pending_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Pending *around = ((Pending *)self)->around;
    Py_XDECREF(((Pending *)self)->owner);
    type->tp_free(self);
    Py_DECREF(type);
    while (around) { /* not by recursion: a chain may be long */
        Pending *next = Py_REFCNT(around) == 1 ? around->around : NULL;
        if (next)
            around->around = NULL;
        Py_DECREF(around);
        around = next;
    }
}

/* The innermost pending async span of this context, a new reference or NULL. */
static Pending *pending_now(void)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(current, NULL, &value) < 0)
        PyErr_Clear();
    if (value && !Py_IS_TYPE(value, pending_type))
        Py_CLEAR(value);
    return (Pending *)value;
}

static void set_pending(Pending *pending)
{
    PyObject *token = PyContextVar_Set(current, pending ? (PyObject *)pending : Py_None);
    if (!token)
        PyErr_Clear();
    Py_XDECREF(token);
}

static void async_enter(Async *self, int64_t a0, int64_t a1, uint32_t types)
{
    Pending *around = pending_now(), *pending;
    struct cuzk_trace__slot *slot;
    uint32_t parent = 0;
    if (!around && !cuzk_trace__on(&self->name))
        return; /* its exit will find nothing */
    /* Inside another one it is pushed at any level, so that its exit does not take one of the same name. */
    if (!(pending = PyObject_New(Pending, pending_type))) {
        PyErr_Clear();
        Py_XDECREF(around);
        return;
    }
    pending->around = around;
    pending->owner = (Async *)Py_NewRef((PyObject *)self);
    pending->span.slot = NULL;
    pending->span.bits = 0;
    pending->generation = 0;
    if (cuzk_trace__on(&self->name)) {
        if (!cuzk_trace__tls.slot)
            claim();
        slot = cuzk_trace__tls.slot;
        if (around && slot && around->span.slot == slot && around->generation == slot->generation)
            parent = around->span.id;
        cuzk_trace_async_begin(&pending->span, &self->name, a0, a1, types, parent);
        if (pending->span.slot)
            pending->generation = pending->span.slot->generation;
        if (parent)
            pending->span.depth = around->span.depth + 1;
    }
    set_pending(pending);
    Py_DECREF(pending);
}

static void async_exit(Async *self, int failed)
{
    Pending *pending = pending_now(), *at = pending;
    cuzk_trace_span span;
    while (at && at->owner != self)
        at = at->around;
    if (at) { /* else left in another context than it was entered in */
        span = at->span;
        set_pending(at->around);
        if (span.slot && !cuzk_trace__tls.slot)
            claim();
        if (span.slot && span.slot == cuzk_trace__tls.slot && at->generation != span.slot->generation)
            span.slot = NULL, span.bits = CUZK_TRACE__VOID; /* its thread has ended, and this one has its slot */
        cuzk_trace_async_end(&span, failed);
    }
    Py_XDECREF(pending);
}

/* An awaitable that has its result already. */
typedef struct {
    PyObject_HEAD
    PyObject *value;
} Done;

static PyObject *done(PyObject *value)
{
    Done *self = PyObject_New(Done, done_type);
    if (self)
        self->value = Py_NewRef(value);
    return (PyObject *)self;
}

static void done_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(((Done *)self)->value);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *done_next(PyObject *self)
{
    PyObject *value = ((Done *)self)->value;
    PyErr_SetObject(PyExc_StopIteration, value);
    return NULL;
}

static PyObject *async_enter_method(PyObject *self, PyObject *Py_UNUSED(none))
{
    async_enter((Async *)self, 0, 0, 0);
    return Py_NewRef(self);
}

static PyObject *async_exit_method(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    async_exit((Async *)self, is_error(args, count));
    Py_RETURN_NONE;
}

static PyObject *async_aenter_method(PyObject *self, PyObject *Py_UNUSED(none))
{
    async_enter((Async *)self, 0, 0, 0);
    return done(self);
}

static PyObject *async_aexit_method(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    async_exit((Async *)self, is_error(args, count));
    return done(Py_None);
}

static PyObject *async_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"a0", "a1", NULL};
    PyObject *a0 = NULL, *a1 = NULL;
    AsyncCall *call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", names, &a0, &a1))
        return NULL;
    if (a0 && PyCallable_Check(a0))
        return decorate(self, a0);
    if (!(call = PyObject_New(AsyncCall, async_call_type)))
        return NULL;
    call->span = (Async *)Py_NewRef(self);
    call->types = 0;
    call->a0 = a0 ? argument(a0, &call->types, CUZK_TRACE_A0_F64) : 0;
    call->a1 = a1 ? argument(a1, &call->types, CUZK_TRACE_A1_F64) : 0;
    return (PyObject *)call;
}

static PyObject *async_name(PyObject *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(((Async *)self)->text);
}

static void async_call_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(((AsyncCall *)self)->span);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *async_call_enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    AsyncCall *call = (AsyncCall *)self;
    async_enter(call->span, call->a0, call->a1, call->types);
    return Py_NewRef((PyObject *)call->span);
}

static PyObject *async_call_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    async_exit(((AsyncCall *)self)->span, is_error(args, count));
    Py_RETURN_NONE;
}

static PyObject *async_call_aenter(PyObject *self, PyObject *Py_UNUSED(none))
{
    AsyncCall *call = (AsyncCall *)self;
    async_enter(call->span, call->a0, call->a1, call->types);
    return done((PyObject *)call->span);
}

static PyObject *async_call_aexit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    async_exit(((AsyncCall *)self)->span, is_error(args, count));
    return done(Py_None);
}

static PyObject *module_async_span(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "a0", "a1", "stage", NULL};
    PyObject *text, *a0 = NULL, *a1 = NULL, *key, *known;
    Async *span;
    int stage = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OOp:async_span", names, &text, &a0, &a1, &stage))
        return NULL;
    text = PyObject_Str(text);
    a0 = text_of(a0);
    a1 = text_of(a1);
    key = text && a0 && a1 ? Py_BuildValue("(OOOi)", text, a0, a1, stage) : NULL;
    known = key ? PyDict_GetItemWithError(asyncs, key) : NULL;
    if (known) {
        Py_INCREF(known);
    } else if (key && !PyErr_Occurred() && (span = PyObject_New(Async, async_type)) != NULL) {
        span->text = Py_NewRef(text);
        known = (PyObject *)span;
        if (set_name(&span->name, text, a0, a1, stage ? CUZK_TRACE_STAGE : 0u, UINT32_MAX) < 0 ||
            PyDict_SetItem(asyncs, key, known) < 0)
            known = NULL; /* what was made stays: its name may be in use */
    }
    Py_XDECREF(key);
    Py_XDECREF(text);
    Py_XDECREF(a0);
    Py_XDECREF(a1);
    return known;
}

/* --------------------------------------------------------------------------------- decorated functions -- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *span, *function, *dict, *weak;
} Decorated;

static PyObject *decorated_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Decorated *decorated = (Decorated *)self;
    PyObject *span = decorated->span, *result;
    Call *call = PyObject_TypeCheck(span, call_type) ? (Call *)span : NULL;
    if (call)
        enter(self, &call->span->name, call->a0, call->a1, call->types);
    else if (Py_IS_TYPE(span, async_type))
        async_enter((Async *)span, 0, 0, 0);
    else
        enter(self, &((Span *)span)->name, 0, 0, 0);
    result = PyObject_Vectorcall(decorated->function, args, nargsf, names);
    if (Py_IS_TYPE(span, async_type))
        async_exit((Async *)span, result == NULL);
    else
        leave(self, result == NULL);
    return result;
}

static PyObject *decorated_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static int decorated_traverse(PyObject *self, visitproc visit, void *arg)
{
    Decorated *decorated = (Decorated *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(decorated->span);
    Py_VISIT(decorated->function);
    Py_VISIT(decorated->dict);
    return 0;
}

static int decorated_clear(PyObject *self)
{
    Decorated *decorated = (Decorated *)self;
    Py_CLEAR(decorated->span);
    Py_CLEAR(decorated->function);
    Py_CLEAR(decorated->dict);
    return 0;
}

static void decorated_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((Decorated *)self)->weak)
        PyObject_ClearWeakRefs(self);
    decorated_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *decorated_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%R in %R>", ((Decorated *)self)->function, ((Decorated *)self)->span);
}

/* Pickled by name, as functions are. */
static PyObject *decorated_reduce(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMemberDef decorated_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Decorated, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Decorated, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Decorated, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef decorated_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef decorated_methods[] = {
    {"__reduce__", decorated_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *decorate(PyObject *span, PyObject *function)
{
    PyObject *helper = PyImport_ImportModule("cuzk_tracer.decorate"), *result = NULL, *answer, *whole = NULL;
    Decorated *made;
    int is_async = -1;
    if (!helper)
        return NULL;
    answer = PyObject_CallMethod(helper, "is_coroutine", "O", function);
    if (answer)
        is_async = PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (is_async > 0) {
        if (Py_IS_TYPE(span, async_type)) {
            whole = Py_NewRef(span);
        } else { /* the span of a coroutine lasts from its first step to its last */
            int stage = (span_of(span)->name.flags & CUZK_TRACE_STAGE) != 0;
            PyObject *args = Py_BuildValue("(O)", span_of(span)->text);
            PyObject *keywords = Py_BuildValue("{s:i}", "stage", stage);
            whole = args && keywords ? module_async_span(NULL, args, keywords) : NULL;
            Py_XDECREF(args);
            Py_XDECREF(keywords);
        }
        if (whole)
            result = PyObject_CallMethod(helper, "coroutine", "OO", whole, function);
        Py_XDECREF(whole);
    } else if (is_async == 0 && (made = PyObject_GC_New(Decorated, decorated_type)) != NULL) {
        made->vectorcall = decorated_call;
        made->span = Py_NewRef(span);
        made->function = Py_NewRef(function);
        made->dict = PyDict_New();
        made->weak = NULL;
        PyObject_GC_Track((PyObject *)made);
        if (made->dict)
            result = PyObject_CallMethod(helper, "wearing", "OO", (PyObject *)made, function);
        Py_DECREF(made);
    }
    Py_DECREF(helper);
    return result;
}

/* ------------------------------------------------------------------------------ the module's functions -- */

enum { MOST_PLAIN = 4096 };

typedef struct { /* the name of counters, marks and flows; never freed */
    PyObject_HEAD
    cuzk_trace_name name;
} Plain;

static PyObject *plains; /* str: Plain */

/* The name for this text, NULL where there is no more room for new ones. Numbers in texts must not fill the table:
 * marks may have half of it. */
static cuzk_trace_name *plain(PyObject *text, uint32_t share)
{
    static cuzk_trace_name overflow = CUZK_TRACE_NAME("<overflow>", NULL, NULL, 0);
    PyObject *type, *value, *trace, *key = NULL;
    Plain *known = PyUnicode_CheckExact(text) ? (Plain *)PyDict_GetItemWithError(plains, text) : NULL;
    if (CUZK_TRACE__LIKELY(known != NULL))
        return &known->name;
    PyErr_Fetch(&type, &value, &trace);
    overflow.id = CUZK_TRACE__NAME_OVERFLOW;
    if (PyDict_GET_SIZE(plains) < MOST_PLAIN && (key = PyObject_Str(text)) != NULL) {
        known = (Plain *)PyDict_GetItemWithError(plains, key);
        if (!known && (known = PyObject_New(Plain, plain_type)) != NULL) {
            if (!cuzk_trace__tls.slot)
                claim();
            if (set_name(&known->name, key, NULL, NULL, 0, CUZK_TRACE__NAMES / share) < 0 ||
                PyDict_SetItem(plains, key, (PyObject *)known) < 0)
                known = NULL; /* what was made stays */
            else
                Py_DECREF(known); /* the dictionary's, for ever */
        }
        Py_DECREF(key);
    }
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return known ? &known->name : &overflow;
}

static PyObject *module_counter(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count,
                                PyObject *keywords)
{
    static const char *const names[] = {"name", "value", NULL};
    PyObject *values[2];
    uint32_t types = 0;
    int64_t value;
    if (!pick("counter", names, 2, args, count, keywords, values))
        return NULL;
    if (cuzk_trace__any()) {
        value = argument(values[1], &types, CUZK_TRACE_A0_F64);
        cuzk_trace__point(plain(values[0], 1), CUZK_TRACE__COUNTER, value, 0, types, 0);
    }
    Py_RETURN_NONE;
}

static PyObject *module_mark(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count,
                             PyObject *keywords)
{
    static const char *const names[] = {"text", "a0", "a1", NULL};
    PyObject *values[3];
    uint32_t types = 0;
    int64_t a0, a1;
    if (!pick("mark", names, 1, args, count, keywords, values))
        return NULL;
    if (cuzk_trace__any()) {
        a0 = values[1] ? argument(values[1], &types, CUZK_TRACE_A0_F64) : 0;
        a1 = values[2] ? argument(values[2], &types, CUZK_TRACE_A1_F64) : 0;
        cuzk_trace__point(plain(values[0], 2), CUZK_TRACE__INSTANT, a0, a1, types, 0);
    }
    Py_RETURN_NONE;
}

static PyObject *module_flow(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count,
                             PyObject *keywords)
{
    static const char *const names[] = {"name", "number", NULL};
    PyObject *values[2];
    unsigned long number = 0;
    if (!pick("flow", names, 1, args, count, keywords, values))
        return NULL;
    if (values[1] && values[1] != Py_None) {
        number = PyLong_AsUnsignedLongMask(values[1]) & 0xFFFFFFFFul;
        if (PyErr_Occurred())
            return NULL;
        if (number && cuzk_trace__any())
            cuzk_trace_flow_step(plain(values[0], 1), (uint32_t)number);
    } else if (cuzk_trace__any()) {
        number = cuzk_trace_flow_begin(plain(values[0], 1));
    }
    return PyLong_FromUnsignedLong(number);
}

static PyObject *module_add_faults(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count,
                                   PyObject *keywords)
{
    static const char *const names[] = {"minor", "major", NULL};
    PyObject *values[2];
    uint64_t faults[2];
    int i;
    if (!pick("add_faults", names, 2, args, count, keywords, values))
        return NULL;
    for (i = 0; i < 2; i++) {
        faults[i] = PyLong_AsUnsignedLongLongMask(values[i]);
        if (PyErr_Occurred())
            return NULL;
    }
    cuzk_trace_add_faults(faults[0], faults[1]);
    Py_RETURN_NONE;
}

static PyObject *module_launcher(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (cuzk_trace__level() < CUZK_TRACE_ALL)
        Py_RETURN_NONE;
    if (!cuzk_trace__tls.slot)
        claim();
    return PyLong_FromUnsignedLongLong(cuzk_trace__here());
}

static PyObject *module_device(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"name", "kind", "start_ns", "end_ns", "device", "stream", "launcher",
                                        "a0",   "a1",   "corr",     NULL};
    PyObject *values[10];
    uint32_t types = 0;
    int64_t v[10];
    int i;
    if (!pick("device", names, 7, args, count, keywords, values))
        return NULL;
    if (!PyObject_TypeCheck(values[0], span_type)) {
        PyErr_SetString(PyExc_TypeError, "device() takes a span for its name");
        return NULL;
    }
    for (i = 1; i < 10; i++)
        v[i] = values[i] ? argument(values[i], &types, 0) : 0;
    cuzk_trace__device((uint32_t)v[1], &span_of(values[0])->name, (uint64_t)v[2], (uint64_t)v[3], (uint32_t)v[4], 0,
                       (uint32_t)v[5], v[7], v[8], (uint32_t)v[9], (uint64_t)v[6]);
    Py_RETURN_NONE;
}

static PyObject *module_meta(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t i, named = names ? PyTuple_GET_SIZE(names) : 0;
    if (count) {
        PyErr_SetString(PyExc_TypeError, "meta() takes keyword arguments only");
        return NULL;
    }
    for (i = 0; i < named; i++) {
        PyObject *text = PyObject_Str(args[i]);
        char *key = utf8(PyTuple_GET_ITEM(names, i)), *value = text ? utf8(text) : NULL;
        if (key && value)
            cuzk_trace_meta(key, value);
        free(key);
        free(value);
        Py_XDECREF(text);
        PyErr_Clear(); /* of the program's own __str__ */
    }
    Py_RETURN_NONE;
}

static PyObject *module_enable(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"level", NULL};
    const char *level = "all";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s:enable", names, &level))
        return NULL;
    cuzk_trace_enable(strcmp(level, "off") == 0      ? CUZK_TRACE_OFF
                      : strcmp(level, "coarse") == 0 ? CUZK_TRACE_COARSE
                                                     : CUZK_TRACE_ALL);
    Py_RETURN_NONE;
}

static PyObject *module_disable(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    cuzk_trace_enable(CUZK_TRACE_OFF);
    Py_RETURN_NONE;
}

static PyObject *text_or_none(const char *text)
{
    return text ? PyUnicode_DecodeFSDefault(text) : Py_NewRef(Py_None);
}

static PyObject *module_open_ring(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (!cuzk_trace__tls.slot && cuzk_trace__any())
        claim();
    return text_or_none(cuzk_trace_path());
}

static PyObject *module_ring_path(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return text_or_none(cuzk_trace_path());
}

static PyObject *module_problem(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return text_or_none(cuzk_trace_problem());
}

/* ------------------------------------------------------------------------------------------- module -- */

#define FUNCTION(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef module_methods[] = {
    {"span", FUNCTION(module_span), METH_VARARGS | METH_KEYWORDS,
     "span($module, name, a0='', a1='', stage=False, faults=False)\n"
     "--\n"
     "\n"
     "The span of this name, one object to make at import: `with SPAN:`, `with SPAN(a0, a1):` or `@SPAN`.\n"
     "\n"
     "The prefix before a dot gives the lane (`msm.h.reduce` is drawn under `msm.h`). `a0` and `a1` name the two\n"
     "arguments, integers or floats. `stage` spans stay on at level \"coarse\"; `faults` ones carry the thread's\n"
     "page faults (about 1.3 µs a span)."},
    {"async_span", FUNCTION(module_async_span), METH_VARARGS | METH_KEYWORDS,
     "async_span($module, name, a0='', a1='', stage=False)\n"
     "--\n"
     "\n"
     "A span for code that is suspended in between: `async with SPAN:`, `with SPAN(a0):` or `@SPAN`.\n"
     "\n"
     "Its parent is the asynchronous span of the same task around it, else the thread's open span. One object\n"
     "may be entered by any number of tasks at once."},
    {"counter", FUNCTION(module_counter), METH_FASTCALL | METH_KEYWORDS,
     "counter($module, name, value)\n"
     "--\n"
     "\n"
     "Record a value, integer or float, of a counter that goes by this name."},
    {"mark", FUNCTION(module_mark), METH_FASTCALL | METH_KEYWORDS,
     "mark($module, text, a0=0, a1=0)\n"
     "--\n"
     "\n"
     "Record an instant with a text. Texts that never recur fill the name table: put numbers in a0 and a1."},
    {"flow", FUNCTION(module_flow), METH_FASTCALL | METH_KEYWORDS,
     "flow($module, name, number=None)\n"
     "--\n"
     "\n"
     "Record one end of an arrow between spans: without a number it begins here, and its number is returned.\n"
     "\n"
     "Hand that over with the work, and call `flow` with it where the work arrives. 0, which is returned while\n"
     "tracing is off, is ignored."},
    {"add_faults", FUNCTION(module_add_faults), METH_FASTCALL | METH_KEYWORDS,
     "add_faults($module, minor, major)\n"
     "--\n"
     "\n"
     "Add faults that other threads took for this one; all open spans with `faults=True` include them."},
    {"launcher", module_launcher, METH_NOARGS,
     "launcher($module)\n"
     "--\n"
     "\n"
     "This thread's innermost open span, for `device`; 0 where there is none, None while no device's work is\n"
     "to be recorded."},
    {"device", FUNCTION(module_device), METH_FASTCALL | METH_KEYWORDS,
     "device($module, name, kind, start_ns, end_ns, device, stream, launcher, a0=0, a1=0, corr=0)\n"
     "--\n"
     "\n"
     "Record what a device did: see `cuzk_tracer.gpu.record`."},
    {"meta", FUNCTION(module_meta), METH_FASTCALL | METH_KEYWORDS,
     "meta($module, **values)\n"
     "--\n"
     "\n"
     "Say something about this session: `meta(job=\"porep-7\")`. A key's later value replaces the earlier."},
    {"enable", FUNCTION(module_enable), METH_VARARGS | METH_KEYWORDS,
     "enable($module, level='all')\n"
     "--\n"
     "\n"
     "Trace from now on: \"all\", \"coarse\" (spans made with `stage=True`, counters and marks), or \"off\".\n"
     "\n"
     "Also lets a failed tracer try again. Spans that are open keep their end."},
    {"disable", module_disable, METH_NOARGS,
     "disable($module)\n"
     "--\n"
     "\n"
     "Stop tracing; the same as `enable(\"off\")`."},
    {"open_ring", module_open_ring, METH_NOARGS,
     "open_ring($module)\n"
     "--\n"
     "\n"
     "Make the ring now instead of at the first span, and return its path (see `ring_path`)."},
    {"ring_path", module_ring_path, METH_NOARGS,
     "ring_path($module)\n"
     "--\n"
     "\n"
     "Path of this process's ring; None before the first span, when off, or when it could not be written."},
    {"problem", module_problem, METH_NOARGS,
     "problem($module)\n"
     "--\n"
     "\n"
     "Why there is no ring, or what in it is incomplete; None when all is well."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef span_getset[] = {{"name", span_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyGetSetDef async_getset[] = {{"name", async_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef named_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Span, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef async_methods[] = {
    {"__enter__", async_enter_method, METH_NOARGS, NULL},
    {"__exit__", FUNCTION(async_exit_method), METH_FASTCALL, NULL},
    {"__aenter__", async_aenter_method, METH_NOARGS, NULL},
    {"__aexit__", FUNCTION(async_aexit_method), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef async_call_methods[] = {
    {"__enter__", async_call_enter, METH_NOARGS, NULL},
    {"__exit__", FUNCTION(async_call_exit), METH_FASTCALL, NULL},
    {"__aenter__", async_call_aenter, METH_NOARGS, NULL},
    {"__aexit__", FUNCTION(async_call_aexit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *make_type(const char *name, size_t size, unsigned long flags, PyTypeObject *base, PyType_Slot *slots)
{
    PyType_Spec spec = {name, (int)size, 0, (unsigned int)(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | flags),
                        slots};
    PyObject *bases = base ? PyTuple_Pack(1, base) : NULL;
    PyObject *type = PyType_FromSpecWithBases(&spec, bases);
    Py_XDECREF(bases);
    return (PyTypeObject *)type;
}

static int module_exec(PyObject *module)
{
    PyType_Slot span_slots[] = {{Py_tp_getset, span_getset}, {Py_tp_repr, (void *)span_repr}, {0, NULL}};
    PyType_Slot named_slots[] = {{Py_tp_members, named_members}, {Py_tp_call, (void *)PyVectorcall_Call}, {0, NULL}};
    PyType_Slot call_slots[] = {{Py_tp_call, (void *)call_call},
                                {Py_tp_dealloc, (void *)call_dealloc},
#ifdef Py_GIL_DISABLED
                                {Py_tp_methods, call_functions},
#endif
                                {0, NULL}};
    PyType_Slot async_slots[] = {{Py_tp_getset, async_getset},
                                 {Py_tp_methods, async_methods},
                                 {Py_tp_call, (void *)async_call},
                                 {0, NULL}};
    PyType_Slot async_call_slots[] = {{Py_tp_methods, async_call_methods},
                                      {Py_tp_dealloc, (void *)async_call_dealloc},
                                      {0, NULL}};
    PyType_Slot pending_slots[] = {{Py_tp_dealloc, (void *)pending_dealloc}, {0, NULL}};
    PyType_Slot done_slots[] = {{Py_tp_dealloc, (void *)done_dealloc},
                                {Py_am_await, (void *)PyObject_SelfIter},
                                {Py_tp_iter, (void *)PyObject_SelfIter},
                                {Py_tp_iternext, (void *)done_next},
                                {0, NULL}};
    PyType_Slot plain_slots[] = {{0, NULL}};
    PyType_Slot decorated_slots[] = {{Py_tp_call, (void *)PyVectorcall_Call},
                                     {Py_tp_descr_get, (void *)decorated_get},
                                     {Py_tp_members, decorated_members},
                                     {Py_tp_getset, decorated_getset},
                                     {Py_tp_methods, decorated_methods},
                                     {Py_tp_traverse, (void *)decorated_traverse},
                                     {Py_tp_clear, (void *)decorated_clear},
                                     {Py_tp_dealloc, (void *)decorated_dealloc},
                                     {Py_tp_repr, (void *)decorated_repr},
                                     {0, NULL}};
    const char *level = getenv("CUZK_TRACE");
    if (spans) {
        PyErr_SetString(PyExc_ImportError, "cuzk_tracer._native can be imported once in a process");
        return -1;
    }
    if (pthread_key_create(&entries_key, free_entries) != 0 || pthread_atfork(NULL, NULL, forget_entries) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    if (level && strcmp(level, "off") == 0)
        cuzk_trace__lib.word = CUZK_TRACE_OFF;
    else if (level && strcmp(level, "coarse") == 0)
        cuzk_trace__lib.word = CUZK_TRACE_COARSE;
    if (!(spans = PyDict_New()) || !(asyncs = PyDict_New()) || !(plains = PyDict_New()) ||
        !(current = PyContextVar_New("cuzk_tracer", Py_None)) ||
        !(span_type = make_type("cuzk_tracer.Span", sizeof(PyObject), Py_TPFLAGS_BASETYPE, NULL, span_slots)) ||
        !(named_type = make_type("cuzk_tracer.NamedSpan", sizeof(Span),
                                 Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, span_type, named_slots)) ||
        !(call_type = make_type("cuzk_tracer.CalledSpan", sizeof(Call), Py_TPFLAGS_BASETYPE, span_type, call_slots)) ||
        !(async_type = make_type("cuzk_tracer.AsyncSpan", sizeof(Async), 0, NULL, async_slots)) ||
        !(async_call_type = make_type("cuzk_tracer.CalledAsyncSpan", sizeof(AsyncCall), 0, NULL, async_call_slots)) ||
        !(pending_type = make_type("cuzk_tracer.PendingSpan", sizeof(Pending), 0, NULL, pending_slots)) ||
        !(done_type = make_type("cuzk_tracer.Done", sizeof(Done), 0, NULL, done_slots)) ||
        !(plain_type = make_type("cuzk_tracer.Name", sizeof(Plain), 0, NULL, plain_slots)) ||
        !(decorated_type = make_type("cuzk_tracer.Decorated", sizeof(Decorated),
                                     Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                                     NULL, decorated_slots)))
        return -1;
    return PyModule_AddObjectRef(module, "Span", (PyObject *)span_type) < 0 ||
                   PyModule_AddObjectRef(module, "AsyncSpan", (PyObject *)async_type) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
#ifdef Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_MOD_GIL_NOT_USED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_native", "The tracer in C: see cuzk_tracer.", 0, module_methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module_definition);
}
