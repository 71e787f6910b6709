// Constructors and destructors of jobs and their results. A core hands a job, such as disk or
// model work, to a port; both variants are large, so they are compiled here once.
#include "runtime/actor/ports.h"

namespace troupe {

Job::Job() = default;
Job::Job(const Job&) = default;
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(const Job&) = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

JobResult::JobResult() = default;
JobResult::JobResult(const JobResult&) = default;
JobResult::JobResult(JobResult&&) noexcept = default;
JobResult& JobResult::operator=(const JobResult&) = default;
JobResult& JobResult::operator=(JobResult&&) noexcept = default;
JobResult::~JobResult() = default;

}  // namespace troupe
