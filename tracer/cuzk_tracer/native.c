/* cuzk_tracer._native: the API of cuzk_tracer for CPython, on cuzk_trace.h. Only Python's types are made here.
 *
 * What makes `with MSM:` cheap: each name has a heap type of its own whose __enter__ and __exit__ are built-in
 * functions that are bound to the span already. `with` finds them on the type, has nothing to bind, and calls them
 * without a Python frame. The spans with arguments are made the same way and kept for the next call.
 *
 * One file for the compiler, so that the writer is inlined into these functions; its parts are in native/.
 */
#include "native/decorated.h"
#include "native/functions.h"

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
