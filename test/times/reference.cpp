// The unit of the suite's times: test/times/measure.cpp compiles this file. It includes only the
// C++ library. A change of it needs a new record.
#include <map>
#include <string>
#include <vector>

int reference(const std::vector<std::string> &names) {
  std::map<std::string, std::vector<int>> positions;
  for (size_t i = 0; i < names.size(); ++i)
    positions[names[i]].push_back(static_cast<int>(i));
  int sum = 0;
  for (auto &[name, values] : positions)
    for (int value : values)
      sum += value * static_cast<int>(name.size());
  return sum;
}
