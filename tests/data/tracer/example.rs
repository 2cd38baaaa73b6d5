//! A Rust program that is traced. `trace_ffi.c` is the header compiled once (with the `cc` crate in a build.rs, or by
//! hand: cc -c -O2 -DCUZK_TRACE_FFI); the block below is all that Rust needs to know of it.

use std::ffi::{c_char, c_int, CString};
use std::sync::OnceLock;

#[repr(C, align(8))]
struct RawSpan([u8; 80]);

extern "C" {
    fn cuzk_trace_ffi_name(text: *const c_char, a0: *const c_char, a1: *const c_char, flags: u32) -> *mut u8;
    fn cuzk_trace_ffi_begin(span: *mut RawSpan, name: *mut u8, a0: i64, a1: i64);
    fn cuzk_trace_ffi_end(span: *mut RawSpan, error: c_int);
}

/// A span's name, for a `static`.
struct Name(&'static str, &'static str, OnceLock<usize>);

impl Name {
    const fn new(text: &'static str, a0: &'static str) -> Self {
        Name(text, a0, OnceLock::new())
    }

    /// Begin a span that ends when the returned value is dropped.
    fn span(&self, a0: i64, a1: i64) -> Span {
        let name = *self.2.get_or_init(|| {
            let (text, a0) = (CString::new(self.0).unwrap(), CString::new(self.1).unwrap());
            unsafe { cuzk_trace_ffi_name(text.as_ptr(), a0.as_ptr(), std::ptr::null(), 0) as usize }
        });
        let mut span = Span(RawSpan([0; 80]));
        unsafe { cuzk_trace_ffi_begin(&mut span.0, name as *mut u8, a0, a1) };
        span
    }
}

struct Span(RawSpan);

impl Drop for Span {
    fn drop(&mut self) {
        unsafe { cuzk_trace_ffi_end(&mut self.0, std::thread::panicking() as c_int) }
    }
}

static SYNTHESIS: Name = Name::new("synthesis", "partition");
static WITNESS: Name = Name::new("synthesis.witness", "rows");

fn main() {
    {
        let _synthesis = SYNTHESIS.span(1, 0);
        for rows in [10, 20, 30] {
            let _witness = WITNESS.span(rows, -rows);
        }
    }
    let threads: Vec<_> = (0..3)
        .map(|i| {
            std::thread::spawn(move || {
                let _span = SYNTHESIS.span(100 + i, 0);
                if i == 2 {
                    std::panic::set_hook(Box::new(|_| {}));
                    panic!("as planned");
                }
            })
        })
        .collect();
    for thread in threads {
        let _ = thread.join();
    }
}
