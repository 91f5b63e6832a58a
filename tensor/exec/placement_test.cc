// The rules of a placement, each broken once.
#include "tensor/exec/placement.h"

#include <functional>
#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TracedUse Reads(int buffer, int64_t until) { return {buffer, true, false, false, until}; }
TracedUse Updates(int buffer, int64_t until) { return {buffer, true, true, false, until}; }
TracedUse Makes(int buffer, int64_t until) { return {buffer, false, true, true, until}; }

constexpr int kWeight = 0, kMoment = 1, kValue = 2;

// Two phases of three instructions: a value is made of a weight; both change the weight; a moment
// is updated by the value, where the host may do it.
StepTrace Trace() {
  StepTrace trace;
  trace.buffers = {{"w", 64, Role::kParameter}, {"m", 64, Role::kMoment1}, {"v", 64, {}}};
  trace.instructions.resize(6);
  trace.instructions[0].uses = {Reads(kWeight, 1), Makes(kValue, 0)};
  trace.instructions[2].uses = {Updates(kWeight, 2), Reads(kValue, 2)};
  trace.instructions[4].uses = {Updates(kMoment, 4), Reads(kValue, 4)};
  trace.instructions[4].may_run_on_host = true;
  trace.phase_end = {3, 6};
  return trace;
}

// The weight is at home on the host and moves twice; the moment is on disk and updated on the host.
Placement Good() {
  Placement placement;
  placement.home = {Tier::kHost, Tier::kDisk, Tier::kDevice};
  placement.on_host = {false, false, false, false, true, false};
  placement.stays = {
      {kWeight, Tier::kDevice, 0, 1, true, -1}, {kWeight, Tier::kDevice, 2, 2, true, 2},
      {kMoment, Tier::kHost, 3, 4, true, 4},    {kValue, Tier::kDevice, 0, 2, false, 1},
      {kValue, Tier::kHost, 1, 5, false, -1},
  };
  return placement;
}

TEST(PlacementTest, AGoodOneIsAccepted) {
  EXPECT_OK(CheckPlacement(Trace(), Good()));
  // All on the device.
  Placement plain;
  plain.home.assign(3, Tier::kDevice);
  plain.on_host.assign(6, false);
  plain.stays = {{kValue, Tier::kDevice, 0, 4, false, -1}};
  EXPECT_OK(CheckPlacement(Trace(), plain));
  // The value goes down to disk and comes back.
  Placement down = Good();
  down.on_host[4] = false;
  down.home[kMoment] = Tier::kDevice;
  down.stays = {{kWeight, Tier::kDevice, 0, 2, true, 2},
                {kValue, Tier::kDevice, 0, 2, false, 0},
                {kValue, Tier::kDevice, 4, 4, true, -1},
                {kValue, Tier::kHost, 0, 0, false, 0},
                {kValue, Tier::kHost, 4, 4, true, -1}};
  EXPECT_OK(CheckPlacement(Trace(), down));
}

struct Broken {
  const char* message;
  std::function<void(StepTrace&, Placement&)> change;
};

TEST(PlacementTest, EveryRuleIsChecked) {
  using T = StepTrace;
  using P = Placement;
  const Broken cases[] = {
      {"a placement of 2 buffers", [](T&, P& p) { p.home.pop_back(); }},
      {"its home is device", [](T& t, P&) { t.buffers[kWeight].home = Tier::kDevice; }},
      {"a stay of buffer 7", [](T&, P& p) { p.stays.back().buffer = 7; }},
      {"is no part of the step", [](T&, P& p) { p.stays[4].last = 6; }},
      {"is on neither device nor host", [](T&, P& p) { p.stays[0].tier = Tier::kDisk; }},
      {"is not above the home", [](T&, P& p) { p.home[kWeight] = Tier::kDevice; }},
      {"of a state leaves its phase", [](T&, P& p) { p.stays[1].last = 3; }},
      {"is stored after 0", [](T&, P& p) { p.stays[1].store_after = 0; }},
      {"is not after the stay before it", [](T&, P& p) { p.stays[0].last = 2; }},
      {"is not after the stay before it", [](T&, P& p) { std::swap(p.stays[3], p.stays[4]); }},
      {"instruction 2 may not run on the host", [](T&, P& p) { p.on_host[2] = true; }},
      {"instruction 4 on device finds it elsewhere", [](T&, P& p) { p.on_host[4] = false; }},
      {"instruction 0 on device needs it until 1", [](T&, P& p) { p.stays[0].last = 0; }},
      {"instruction 2 on device finds a stale copy", [](T&, P& p) { p.stays[1].load = false; }},
      {"is loaded from a stale copy", [](T&, P& p) { p.stays[4].load = true; }},
      {"is loaded from where nothing is", [](T&, P& p) { p.home[kWeight] = Tier::kDisk; }},
      {"its home is not up to date when a phase ends",
       [](T&, P& p) { p.stays[1].store_after = -1; }},
      {"its home is not up to date when a phase ends",
       [](T&, P& p) { p.stays[2].store_after = -1; }},
      {"stores a stale copy",
       [](T&, P& p) { p.stays[4].store_after = 1, p.stays[3].store_after = 2; }},
      {"is stored to where it has no place", [](T&, P& p) { p.stays[4].first = 2; }},
      {"instruction 4 on host finds a stale copy", [](T&, P& p) { p.stays[3].store_after = -1; }},
      {"writes it after the stay was stored",
       [](T& t, P&) { t.instructions[2].uses[1] = Updates(kValue, 2); }},
  };
  for (const Broken& broken : cases) {
    StepTrace trace = Trace();
    Placement placement = Good();
    broken.change(trace, placement);
    EXPECT_THAT(CheckPlacement(trace, placement),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(broken.message)))
        << broken.message;
  }
}

}  // namespace
}  // namespace colossus
