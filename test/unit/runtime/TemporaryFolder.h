// Tests that write files.
#ifndef SHALE_TEST_TEMPORARYFOLDER_H
#define SHALE_TEST_TEMPORARYFOLDER_H

#include "runtime/core/Files.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace shale::rt {

/// A test with a folder of its own, which is removed when the test ends.
class TemporaryFolder : public ::testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/shale-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    work = pattern;
  }
  void TearDown() override { removeTree(work); }
  /// Writes a file of the folder. Returns its path.
  std::string put(const std::string &name, const std::string &bytes) {
    std::ofstream(work + "/" + name, std::ios::binary) << bytes;
    return work + "/" + name;
  }
  std::string work;
};

} // namespace shale::rt

#endif
