/* A function with a span around it. */
#ifndef CUZK_NATIVE_DECORATED_H
#define CUZK_NATIVE_DECORATED_H

#include "async.h"

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

#endif
