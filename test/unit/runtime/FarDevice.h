// Access to the memory of the far device (FarDevice.cpp) for the duration of a scope.
#ifndef SHALE_TEST_FARDEVICE_H
#define SHALE_TEST_FARDEVICE_H

struct FarAccess {
#ifdef SHALE_FAR
  FarAccess();
  ~FarAccess();
#else
  FarAccess() {} // the host's memory is always accessible
#endif
};

#endif
