/* All the C that a Rust program needs. */
#define CUZK_TRACE_FFI
#include "cuzk_trace.h"
