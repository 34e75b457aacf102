-- absent -> delayed or ready; a job that has the id already is kept or replaced, or the put is refused.
-- ARGV  2 number of jobs; for each job: id, rest of its record; then for each run of jobs that have the following in
--       common: number of jobs, topic, schedule (see due_time), 'reject' | 'keep' | 'replace'; a '+' after that word
--       means that an argument for each job of the run follows, its body, which is too long for the record; after that,
--       a digit is their priority, if not the standard one, and a '!' means that they expire
-- Reply for each job: if created, twice the due time, plus one if it is ready; or refusal; or
--       {1 kept | 2 replaced | 3 created in place of a finished job, state, due time, the topic of a kept job that has
--       moved}; or {refusal, state and topic of the living job}
--       e.g. {3527380120001, -7, {1, 3, 1763690060000}, {-2, 4, 'orders'}}
--       If all are numbers, one text replaces them, which costs both sides less: {'3527380120001 -7'}. It shows 14
--       digits, enough until the year 3554.

--- @include "shared/prelude"
--- @include "shared/tools"
--- @include "put/create"
--- @include "put/conflict"
--- @include "put/put_all"

local function transition()
  local reply, are_numbers = put_all()
  return are_numbers and { table.concat(reply, ' ') } or reply
end

--- @include "shared/each_bucket"
