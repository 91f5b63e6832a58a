// Gantt: a timeline to look at.
//
// Purpose: what a person reads to see where a schedule waits.
// Thread-safety: functions of their arguments. Ownership: none.
//
//   std::fputs(GanttText(timeline, /*columns=*/100).c_str(), stdout);
//   // stage 0 F0 F1 F2 F3 . . . B0 W0 ...
#ifndef COLOSSUS_PARALLEL_PIPELINE_GANTT_H_
#define COLOSSUS_PARALLEL_PIPELINE_GANTT_H_

#include <string>

#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {

// A line for each stage, `columns` wide beside its name. An action is F, B or W (in small letters
// where the chunk is odd) with its micro-batch where there is room, filled up with - = or ~ (a
// whole backward with =); dots are waits.
std::string GanttText(const Timeline& timeline, int columns);

// A picture for browsers: a row for each stage, colours by kind, shades by chunk; what an action is
// shows under the pointer.
std::string GanttSvg(const Timeline& timeline);

// For chrome://tracing and Perfetto: a thread for each stage, and a counter of kept activations.
// `microseconds`: of a unit of the timeline's times.
std::string GanttChromeTrace(const Timeline& timeline, const PipelineCosts& costs,
                             double microseconds);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_GANTT_H_
