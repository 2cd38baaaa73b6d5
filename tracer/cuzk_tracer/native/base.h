/* Our writer, inlined into the one file that includes all of this, and Python. */
#ifndef CUZK_NATIVE_BASE_H
#define CUZK_NATIVE_BASE_H

#define CUZK_TRACE__SHARED static __attribute__((unused))
#include "cuzk_trace.h" /* first: it asks for _GNU_SOURCE */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#endif
