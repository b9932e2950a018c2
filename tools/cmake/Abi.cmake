# Writes OUT, which defines SHALE_ABI: VERSION, the version of LLVM, and a hash of the
# public headers whose paths below SOURCE the file LIST holds. Run by cmake -P.
file(STRINGS ${LIST} headers)
set(hashes "")
foreach(header ${headers})
  file(SHA256 ${SOURCE}/${header} hash)
  string(APPEND hashes "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUT} CONTENT [=[
// Generated from the public headers.
#ifndef SHALE_ABI_H
#define SHALE_ABI_H

/// Shale's version, LLVM's version, and a hash of the public headers.
#define SHALE_ABI "@VERSION@ (LLVM @LLVM@, headers @hash@)"

#endif // SHALE_ABI_H
]=] @ONLY)
