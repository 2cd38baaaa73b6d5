/* What Python hands over: arguments as the numbers of a record, texts as names. */
#ifndef CUZK_NATIVE_ARGUMENTS_H
#define CUZK_NATIVE_ARGUMENTS_H

#include "base.h"

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

#endif
