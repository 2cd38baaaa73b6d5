/* `cuzk_tracer.async_span`: spans that other code may interrupt. */
#ifndef CUZK_NATIVE_ASYNC_H
#define CUZK_NATIVE_ASYNC_H

#include "spans.h"

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

#endif
