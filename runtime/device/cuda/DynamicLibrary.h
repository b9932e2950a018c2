// Shared libraries of NVIDIA, opened at run time: a program starts on a machine without them, with
// a clear error.
//
// A list of functions is a macro F(X) that applies X to each name. A struct of them has the members
// F(SHALE_DECLARE_FUNCTION) and is filled by F(SHALE_FIND_FUNCTION), where `library` is the
// DynamicLibrary and `functions` the struct. The headers' macros for versioned names
// (cuMemAlloc is cuMemAlloc_v2) apply to members, uses and symbols alike.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_DYNAMICLIBRARY_H
#define SHALE_RUNTIME_DEVICE_CUDA_DYNAMICLIBRARY_H

#include <string>

// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a name
#define SHALE_DECLARE_FUNCTION(function) decltype(&::function) function = nullptr;
#define SHALE_FIND_FUNCTION(function) library.find(functions.function, SHALE_SYMBOL(function));
#define SHALE_SYMBOL(function) #function

namespace shale::rt::cuda {

/// Sets the folder that is searched before the loader's: --cuda-libraries. Call it before the
/// device is opened.
void setLibraryFolder(const std::string &folder);

/// Opens the libraries of the folder of --cuda-libraries whose names match a pattern of the shell.
/// Other libraries, which open them by name later, find the open ones.
void openForOthers(const char *pattern);

class DynamicLibrary {
public:
  /// Opens a library, which stays open. Throws with exit code 69; `purpose` begins the message.
  DynamicLibrary(const char *name, const char *purpose);

  /// Sets `function` to the function of a name. Throws with exit code 69 if it is missing.
  template <typename Function> void find(Function &function, const char *symbol) const {
    function = reinterpret_cast<Function>(addressOf(symbol));
  }

  /// The handle of dlopen.
  void *opened() const { return handle; }

private:
  void *addressOf(const char *symbol) const;

  const char *name;
  void *handle;
};

} // namespace shale::rt::cuda

#endif
