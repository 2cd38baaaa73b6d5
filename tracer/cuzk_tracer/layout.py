"""The ring file's layout as data: offsets, kinds, flags, version.

This is the ABI. Whoever writes a ring (the Python writer, a C writer, a header-only client of another
language) writes exactly these bytes, and whoever reads one needs nothing else. Everything is little-endian
and naturally aligned; a count or head is stored after what it publishes, with release order.

A file, in order (every area's place and size stands in the header, so sizes may differ between writers):

    header page | anchors | metadata | slot headers | thread lines | names | strings | open stacks | rings

- *Slot*: one writing thread. Its 64-byte header names its open-span stack and its ring of records; where they
  are and the ring's size is written for all slots when the file is made.
- *Record* ``i`` of a slot lies at ``ring_off + (i & mask) * 64``; its index word holds ``(i + 1) mod 2**32``
  and is stored after the body; ``head`` (records ever written) is stored after that. The oldest record is
  overwritten, never waited for. A reader copies, reads ``head`` again and keeps only records above
  ``head - (mask + 1)``: the one at that place may be half overwritten.
- *String*: at ``strings_off + id``: u32 length, then UTF-8 bytes, padded to 4. Id 0 is "none".
- *Anchors*: a ring of clock triples under a sequence lock (odd while being written).

One process, one file, however many libraries of it write: Python's extension, its pure-Python writer, and
each shared object that was compiled with `cuzk_trace.h`. What they agree on:

- *Finding it*: the file is `PID.STARTTIME.ring` of a ring folder, and one that this process has mapped (a
  line of /proc/self/maps ends in that name) is its session: join it. One that exists and is not mapped is
  left from before an exec: replace it. `magic` is stored last.
- *Cold changes* (strings, names, metadata, anchors, slots claimed, `writers`) are made under flock(LOCK_EX)
  of the file, with every count read from the file and not kept. Nobody waits for that lock longer than a
  second; readers never take it.
- *A thread has one slot*, the live one with its tid and its pthread_self(). A library that finds it adds one
  to `users`, and takes it off when the thread ends; who takes off the last one marks the slot dead.
- *A thread's state is in its slot*, not in the libraries: head, depth, next_id and the open stack are read
  at each span and stored again, so spans of several libraries nest in each other. `busy` is set around each
  of these changes: a signal handler that interrupted one counts its record as dropped.
- The pure-Python writer would be too slow that way. It keeps its threads' state and shares no slot: `handle`
  is 0, and a native library has a slot of its own for such a thread.
"""

MAGIC = b"CZRING01"
VERSION_MAJOR = 1
VERSION_MINOR = 1

PAGE_BYTES = 4096

Field = tuple[str, int, str]
"""Name, byte offset, and type as a `struct` code: H u16, I u32, Q u64, q i64, B u8, 16s bytes."""

HEADER_BYTES = PAGE_BYTES
HEADER: tuple[Field, ...] = (
    ("magic", 0, "8s"),
    ("major", 8, "H"),
    ("minor", 10, "H"),
    ("header_bytes", 12, "I"),
    ("file_bytes", 16, "Q"),
    ("anchors_off", 24, "Q"),
    ("anchor_capacity", 32, "I"),
    ("name_capacity", 36, "I"),
    ("names_off", 40, "Q"),
    ("metas_off", 48, "Q"),
    ("meta_capacity", 56, "I"),
    ("slot_count", 60, "I"),
    ("strings_off", 64, "Q"),
    ("strings_bytes", 72, "Q"),
    ("slots_off", 80, "Q"),
    ("pid", 88, "I"),
    ("parent_pid", 92, "I"),
    ("start_time", 96, "Q"),  # of the process, field 22 of /proc/PID/stat: guards against a reused pid
    ("opened_ns", 104, "q"),
    ("clock_kind", 112, "I"),
    ("enabled", 116, "I"),
    ("uuid", 120, "16s"),
    ("parent_uuid", 136, "16s"),
    ("boot_id", 152, "16s"),
    # What changes while the process runs has cache lines of its own.
    ("heartbeat_ns", 192, "q"),
    ("ended_ns", 200, "q"),  # 0 until the process leaves in good order
    ("names_count", 208, "Q"),
    ("metas_count", 216, "Q"),
    ("strings_used", 224, "Q"),
    ("slots_used", 232, "Q"),  # slots above this were never claimed
    ("dropped", 240, "Q"),  # records of threads that got no slot, added to atomically
    ("dropped_plain", 248, "Q"),  # the same, of the one writer that cannot add atomically
    ("anchor_seq", 256, "Q"),
    ("anchors_count", 264, "Q"),  # anchors ever written; entry of anchor i is i mod capacity
    ("threads_off", 272, "Q"),
    ("writers", 280, "I"),  # libraries that write; who leaves last stores ended_ns
    ("problems", 284, "I"),  # what found no room: PROBLEM bits
    ("names_lost", 288, "Q"),  # names that became <overflow>
    ("fd", 296, "I"),  # the maker's descriptor of this file
)

PROBLEM_NAMES = 1
PROBLEM_STRINGS = 2
PROBLEM_METAS = 4
PROBLEM_SLOTS = 8  # more threads at once than slots
PROBLEM_SPACE = 16  # the file system has no room for another thread's ring

ANCHOR_BYTES = 32
ANCHOR: tuple[Field, ...] = (
    ("ticks", 0, "Q"),
    ("monotonic_ns", 8, "q"),
    ("realtime_ns", 16, "q"),
    ("segment", 24, "Q"),  # goes up where the clocks jumped: never interpolate across
)

META_BYTES = 8
META_ENTRY: tuple[Field, ...] = (("key", 0, "I"), ("value", 4, "I"))  # string ids

NAME_BYTES = 32
NAME: tuple[Field, ...] = (
    ("text", 0, "I"),
    ("a0", 4, "I"),  # string ids of the two arguments' names, 0 where there is none
    ("a1", 8, "I"),
    ("flags", 12, "I"),
)
NAME_STAGE = 1
NAME_FAULTS = 2

SLOT_BYTES = 64
SLOT: tuple[Field, ...] = (
    ("head", 0, "Q"),
    ("mask", 8, "I"),  # records in the ring - 1, a power of two - 1
    ("tid", 12, "I"),
    ("name", 16, "I"),  # string id of the thread's name
    ("state", 20, "I"),
    ("depth", 24, "I"),
    ("next_id", 28, "I"),  # a writer's own note; readers do not need it
    ("ring_off", 32, "Q"),
    ("stack_off", 40, "Q"),
    ("generation", 48, "I"),  # counts the threads that had this slot
    ("busy", 52, "I"),  # its thread is in the middle of a change
    ("base", 56, "Q"),  # head when this generation began: records below are the thread's before
)
SLOT_FREE = 0
SLOT_LIVE = 1
SLOT_DEAD = 2

THREAD_BYTES = 64
THREAD: tuple[Field, ...] = (  # what the writers of a slot's thread share and readers do not need
    ("users", 0, "I"),  # libraries that use the slot
    ("top", 4, "I"),  # id of the innermost open span while there are more than STACK_ENTRIES
    ("handle", 8, "Q"),  # pthread_self(); 0 in a slot that is not shared
    ("minflt", 16, "Q"),  # added to what getrusage says; wraps, so that it may also be taken off
    ("majflt", 24, "Q"),
    ("died_ns", 32, "q"),
)

STACK_ENTRIES = 64
OPEN_BYTES = 32
OPEN: tuple[Field, ...] = (
    ("t0", 0, "Q"),
    ("name", 8, "I"),  # name id, and OPEN_F64 and OPEN_F64_A1
    ("id", 12, "I"),
    ("a0", 16, "q"),
    ("a1", 24, "q"),
)

OPEN_F64 = 0x8000_0000  # a0 holds a float64's bits
OPEN_F64_A1 = 0x4000_0000
OPEN_NAME_MASK = 0x3FFF_FFFF

RECORD_BYTES = 64
RECORD: tuple[Field, ...] = (
    ("t0", 0, "Q"),
    ("t1", 8, "Q"),
    ("name", 16, "I"),
    ("id", 20, "I"),
    ("parent", 24, "I"),
    ("kind", 28, "B"),
    ("depth", 29, "B"),
    ("track", 30, "H"),
    ("a0", 32, "q"),
    ("a1", 40, "q"),
    ("minflt", 48, "I"),
    ("majflt", 52, "I"),
    ("corr", 56, "I"),
    ("index", 60, "I"),
)

KIND_NONE = 0
KIND_SPAN = 1
KIND_ASYNC = 2
KIND_INSTANT = 3
KIND_COUNTER = 4
KIND_GPU_KERNEL = 5
KIND_GPU_MEMCPY = 6
KIND_GPU_MEMSET = 7
KIND_UVM = 8
KIND_OVERHEAD = 9
KIND_FLOW = 10
KIND_ARGS = 11
KIND_META = 12

# Flags ride in the high bit of `kind` and the top bits of `track`.
KIND_ERR = 0x80  # left by an exception
KIND_MASK = 0x7F
TRACK_F64 = 0x8000  # a0 holds a float64's bits
TRACK_TEXT = 0x4000  # a1 is a string id
TRACK_FAULTS = 0x2000  # minflt and majflt were measured
TRACK_UNBALANCED = 0x1000  # closed by an enclosing span's end, not by its own
TRACK_F64_A1 = 0x0800  # a1 holds a float64's bits
TRACK_MASK = 0x07FF  # 0: the slot's own thread

CLOCK_MONOTONIC = 1
CLOCK_TSC = 2

LEVEL_OFF = 0
LEVEL_COARSE = 1
LEVEL_ALL = 2

NAME_OVERFLOW = 1
"""Name id of everything whose own name found no room any more; id 0 is "no name"."""
