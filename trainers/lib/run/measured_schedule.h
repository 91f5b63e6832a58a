// MeasuredSchedule: a searched order of a pipeline by times that were measured.
//
// Purpose: a session is opened, and refused, by predicted times. Before it takes memory for good,
// its program runs as a trial (parallel/time_pipeline.h): with values and rows of its own, of which
// nothing stays but times. Then it is gone, and the one that trains is compiled by these.
// Thread-safety: one thread a rank. Collective over the session's group.
//
//   RETURN_IF_ERROR(MeasureSchedule(*session, log, &begun));   // if the plan says `searched`
//   RETURN_IF_ERROR(session->training->Allocate());
#ifndef COLOSSUS_TRAINERS_LIB_RUN_MEASURED_SCHEDULE_H_
#define COLOSSUS_TRAINERS_LIB_RUN_MEASURED_SCHEDULE_H_

#include "absl/status/status.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/run/session.h"

namespace colossus {

// Nothing unless the session's order is searched for, on ranks that can measure. Says in the log
// what was measured and what it changed. Changes no bit of what is trained. `begun`: true while the
// trial runs, which then fails as a run does. REQUIRES: opened, not allocated. Error: on any rank,
// as TrainingProgram::Allocate and RunUpdate; as OpenSession.
absl::Status MeasureSchedule(Session& session, Log& log, bool* begun);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_MEASURED_SCHEDULE_H_
