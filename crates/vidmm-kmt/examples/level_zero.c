/*
 * A Level Zero client: allocations of 64 MiB are made resident by explicit calls, and evicted. The argument is their number. Debian has no
 * headers of Level Zero, so the functions are declared here.
 *
 *     cc level_zero.c -ldl -o level_zero
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX 64
#define SIZE ((size_t)64 << 20)

typedef void *handle;
typedef uint32_t result;

/* ze_context_desc_t and ze_device_mem_alloc_desc_t. */
struct context_desc { uint32_t type; const void *next; uint32_t flags; };
struct memory_desc { uint32_t type; const void *next; uint32_t flags, ordinal; };

/* The functions of ze_context_dditable_t that are called here, by place. */
enum { MAKE_MEMORY_RESIDENT = 4, EVICT_MEMORY = 5 };

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 4, resident = 0;
	uint32_t one = 1;
	handle driver, device, context, memory[MAX], table[16] = { 0 };
	struct context_desc of_context = { .type = 0xd };
	struct memory_desc of_memory = { .type = 0x15 };
	void *library = dlopen("libze_intel_gpu.so.1", RTLD_NOW);
	if (count < 1 || count > MAX || !library) {
		fputs("there is no Level Zero driver\n", stderr);
		return 2;
	}
	result (*init)(uint32_t) = dlsym(library, "zeInit");
	result (*driver_get)(uint32_t *, handle *) = dlsym(library, "zeDriverGet");
	result (*device_get)(handle, uint32_t *, handle *) = dlsym(library, "zeDeviceGet");
	result (*create)(handle, struct context_desc *, handle *) = dlsym(library, "zeContextCreate");
	result (*allocate)(handle, struct memory_desc *, size_t, size_t, handle, handle *) = dlsym(library, "zeMemAllocDevice");
	result (*release)(handle, handle) = dlsym(library, "zeMemFree");
	result (*get_table)(uint32_t, handle *) = dlsym(library, "zeGetContextProcAddrTable");
	if (init(0) || driver_get(&one, &driver) || device_get(driver, &one, &device) || create(driver, &of_context, &context) ||
	    get_table(0x10003, table)) {
		fputs("there is no Level Zero device\n", stderr);
		return 2;
	}
	result (*make_memory_resident)(handle, handle, handle, size_t) = table[MAKE_MEMORY_RESIDENT];
	result (*evict_memory)(handle, handle, handle, size_t) = table[EVICT_MEMORY];
	for (int i = 0; i < count; i++)
		if (allocate(context, &of_memory, SIZE, 0, device, &memory[i]))
			return 1;
	for (int i = 0; i < count; i++)
		resident += make_memory_resident(context, device, memory[i], SIZE) == 0;
	printf("%d allocations, %d resident by the driver's answers\n", count, resident);
	for (int i = 0; i < count; i++)
		evict_memory(context, device, memory[i], SIZE);
	for (int i = 0; i < count; i++)
		release(context, memory[i]);
	return 0;
}
