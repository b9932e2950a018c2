// A runtime that was built without the headers of cuDNN.
#include "runtime/device/cuda/Dnn.h"

#include <gtest/gtest.h>

TEST(DnnMissing, SaysSo) {
  for (bool check : {true, false})
    try {
      check ? shale::rt::cuda::Dnn::check() : void(shale::rt::cuda::Dnn(0));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const shale::rt::Error &error) {
      EXPECT_EQ(error.code, SHALE_EXIT_UNAVAILABLE);
      EXPECT_NE(std::string(error.what()).find("built without its headers"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("--attention generated"), std::string::npos);
    }
}
