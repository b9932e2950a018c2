// Functions of glibc 2.35 and 2.36 that libraries of a release use. tools/scripts/package.py makes
// a shared library of them, so that the release runs with glibc 2.34.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *buffer, size_t bytes) {
  for (char *at = buffer; bytes > 0;) {
    ssize_t done = getrandom(at, bytes, 0);
    if (done < 0 && errno != EINTR)
      abort(); // as in glibc: there is no value to return
    if (done > 0) {
      at += done;
      bytes -= (size_t)done;
    }
  }
}

uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof(value));
  return value;
}

struct search {
  uintptr_t address;
  struct dl_find_object *result;
};

static int visit(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  uintptr_t start = UINTPTR_MAX, end = 0, unwind = 0;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t at = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME)
      unwind = at;
    if (part->p_type != PT_LOAD)
      continue;
    inside |= search->address - at < part->p_memsz;
    start = at < start ? at : start;
    end = at + part->p_memsz > end ? at + part->p_memsz : end;
  }
  if (!inside || unwind == 0)
    return inside;
  search->result->dlfo_flags = 0;
  search->result->dlfo_map_start = (void *)start;
  search->result->dlfo_map_end = (void *)end;
  search->result->dlfo_link_map = NULL; // the unwinder of libgcc does not read it
  search->result->dlfo_eh_frame = (void *)unwind;
  return 2;
}

/// Finds the unwind tables of the object that contains an address, as libgcc did before it used
/// this function of glibc 2.35. Returns -1 if there are none.
int _dl_find_object(void *address, struct dl_find_object *result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(visit, &search) == 2 ? 0 : -1;
}
