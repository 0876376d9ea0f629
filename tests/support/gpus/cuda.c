/* A pretended libcuda.so.1 with the devices of the pretended NVML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(void) {
    const char *text = getenv("PRETENDED_GPUS");
    return text ? atoi(text) : 2;
}
int cuInit(unsigned int flags) { (void)flags; return count() ? 0 : 100; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = count(); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return index < count() ? 0 : 101; }
int cuDeviceGetName(char *name, int room, int device) { (void)device; snprintf(name, (size_t)room, "Pretended \"GPU\""); return 0; }
int cuDeviceGetPCIBusId(char *bus, int room, int device) { snprintf(bus, (size_t)room, "0000:%02X:00.0", 0x3b + device); return 0; }
int cuDeviceComputeCapability(int *major, int *minor, int device) { (void)device; *major = 9; *minor = 0; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = (size_t)16 << 30; return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    static const unsigned char all[16] = {0xc0, 0xff, 0xee, 0, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66, 0x66};
    memcpy(uuid, all, 16);
    uuid[3] = (unsigned char)device;
    return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    *value = which == 13 ? 1980000 : which == 16 ? 132 : which == 32 ? 1 : 0;
    return 0;
}
