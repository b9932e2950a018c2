// CMake wants a source file for the target whose precompiled header all others reuse.
