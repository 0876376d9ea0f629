/* A pretended libnvidia-ml.so.1: PRETENDED_GPUS devices, busy for PRETENDED_LOAD percent of the time; the one with the
 * index PRETENDED_LOST, or the one in the file PRETENDED_LOST_FILE, does not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef union { double d; unsigned int ui; unsigned long ul; unsigned long long ull; long long sll; } value_t;
typedef struct { unsigned long long at; value_t value; } sample_t;
typedef struct { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15 };

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
static int count(void) { return number("PRETENDED_GPUS", 2); }
static int index_of(void *device) { return (int)(size_t)device - 1; }
static int lost(void *device) {
    const char *path = getenv("PRETENDED_LOST_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    int lost = number("PRETENDED_LOST", -1);
    if (file) {
        if (fscanf(file, "%d", &lost) != 1) lost = -1;
        fclose(file);
    }
    return index_of(device) == lost;
}

int nvmlInit_v2(void) { return OK; }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int room) { snprintf(text, room, "550.54.15"); return OK; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = (unsigned int)count(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if ((int)index >= count()) return INVALID;
    *device = (void *)(size_t)(index + 1);
    return OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned int room) {
    snprintf(text, room, "GPU-%08x-1111-2222-3333-444455556666", 0xc0ffee00 + index_of(device));
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char own[64];
    for (int i = 0; i < count(); ++i) {
        nvmlDeviceGetUUID((void *)(size_t)(i + 1), own, sizeof own);
        if (!strcmp(own, uuid)) { *device = (void *)(size_t)(i + 1); return OK; }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetName(void *device, char *text, unsigned int room) {
    (void)device;
    snprintf(text, room, "Pretended \"GPU\"");
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *n) { (void)device; *n = 0; return OK; }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    if (lost(device)) return LOST;
    memory->total = 16ull << 30;
    memory->used = (unsigned long long)(index_of(device) + 1) << 30;
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *t) {
    (void)sensor;
    if (lost(device)) return LOST;
    *t = 40 + (unsigned int)index_of(device);
    return OK;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *mw) { (void)device; *mw = 51000; return OK; }
int nvmlDeviceGetFanSpeed(void *device, unsigned int *pct) { (void)device; (void)pct; return NOT_SUPPORTED; }
/* A sample for each tenth of a second of the last two seconds. */
int nvmlDeviceGetSamples(void *device, int kind, unsigned long long after, int *type, unsigned int *n, sample_t *samples) {
    struct timespec now;
    unsigned int found = 0, room = *n;
    (void)kind;
    if (lost(device)) return LOST;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long tenth = (unsigned long long)now.tv_sec * 10 + (unsigned long long)now.tv_nsec / 100000000ull;
    *type = 1;
    if (!samples) { *n = 20; return OK; }
    for (unsigned long long at = tenth - 19; at <= tenth && found < room; ++at)
        if (at * 100000ull > after) {
            samples[found].at = at * 100000ull;
            samples[found++].value.ui = (unsigned int)number("PRETENDED_LOAD", 50);
        }
    *n = found;
    return found ? OK : NOT_FOUND;
}
