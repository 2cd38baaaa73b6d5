/* `cuzk_tracer.span`: a name and its calls. */
#ifndef CUZK_NATIVE_SPANS_H
#define CUZK_NATIVE_SPANS_H

#include "arguments.h"
#include "open_spans.h"

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

#endif
