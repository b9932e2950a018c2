// A library of one file: its precompiled header is that of all.
