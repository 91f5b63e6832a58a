#include "collectives/in_process.h"

#include "collectives/direct.h"
#include "collectives/testing/communicator_conformance.h"

namespace colossus {
namespace {

const bool kRegistered = RegisterCommunicatorConformance(
    {.name = "InProcess",
     .run = [](int ranks, const RankFunction& rank) { return RunRanks({.ranks = ranks}, rank); }});

}  // namespace
}  // namespace colossus
