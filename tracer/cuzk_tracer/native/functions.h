/* The functions of the module that make no spans. */
#ifndef CUZK_NATIVE_FUNCTIONS_H
#define CUZK_NATIVE_FUNCTIONS_H

#include "spans.h"

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

#endif
