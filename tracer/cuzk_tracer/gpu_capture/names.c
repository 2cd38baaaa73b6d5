/* Kernel and range names to entries of the ring's name table: a hash table that only grows, read without a lock. */
#include "capture.h"

enum { PLACES = 4 * CUZK_GPU__MOST_NAMES }; /* a power of two */

static struct entry {
    cuzk_trace_name name;
    uint64_t hash;
} *table[PLACES];
static unsigned count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static cuzk_trace_name others = CUZK_TRACE_NAME("<other names>", NULL, NULL, 0);

/* FNV-1a, eight bytes at a time at the cost of a few collisions more, which are compared anyway. */
static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u ^ length, word;
    for (; length >= 8; length -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; length; length--, text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static int same(const char *one, const char *two)
{
    return one == two || (one && two && strcmp(one, two) == 0);
}

static struct entry *find(uint64_t hash, const char *text, const char *a0, const char *a1, unsigned *place)
{
    struct entry *entry;
    unsigned at = (unsigned)hash & (PLACES - 1);
    while ((entry = __atomic_load_n(&table[at], __ATOMIC_ACQUIRE)) != NULL) {
        if (entry->hash == hash && strcmp(entry->name.text, text) == 0 && same(entry->name.a0, a0) &&
            same(entry->name.a1, a1))
            break;
        at = (at + 1) & (PLACES - 1);
    }
    *place = at;
    return entry;
}

cuzk_trace_name *cuzk_gpu__name(const char *text, const char *a0, const char *a1)
{
    struct entry *entry;
    unsigned place;
    uint64_t hash;
    if (!text)
        return &others;
    hash = hash_of(text, strlen(text)) ^ (uintptr_t)a0;
    entry = find(hash, text, a0, a1, &place);
    if (entry)
        return &entry->name;
    pthread_mutex_lock(&adding);
    entry = find(hash, text, a0, a1, &place);
    if (!entry && count < CUZK_GPU__MOST_NAMES && (entry = (struct entry *)calloc(1, sizeof *entry)) != NULL) {
        entry->hash = hash;
        entry->name.text = strdup(text);
        entry->name.a0 = a0; /* literals */
        entry->name.a1 = a1;
        entry->name.level = CUZK_TRACE_ALL;
        if (entry->name.text) {
            count++;
            __atomic_store_n(&table[place], entry, __ATOMIC_RELEASE);
        } else {
            free(entry);
            entry = NULL;
        }
    }
    pthread_mutex_unlock(&adding);
    return entry ? &entry->name : &others;
}
