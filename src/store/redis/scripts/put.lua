-- absent -> delayed or ready. Leaves the put of an existing id to the core (decisions/).
-- ARGV  2 number of jobs; for each job: id, rest of its record; then for each run of jobs that have the following in
--       common: number of jobs, topic, schedule (see due_time), options: a '+' means that an argument for each job of the
--       run follows, its body, which is too long for the record; a digit is their priority, if not the standard one; a
--       '!' means that they expire
-- Reply for each job: if created, twice the due time, plus one if it is ready; or refusal; for an id that existed before
--       the call, the time in microseconds and the texts of its job (loaded.lua); for one that the call has created, {}
--       e.g. {3527380120001, -7, {1763690060000000, '...'}, {}}
--       If all are numbers, one text replaces them, which costs both sides less: {'3527380120001 -7'}. It shows 14
--       digits, enough until the year 3554.

--- @include "shared/basics"
--- @include "shared/refusals"
--- @include "shared/clock"
--- @include "put/create"
--- @include "put/put_all"

-- Loads an existing job; one that the call creates has no record yet, so this only proves the rights that a load needs.
-- Only here, the functions of loaded.lua are needed.
local function left(id, record, topic)
--- @include "shared/loaded"
  local attempt = redis.call('HGET', ATTEMPTS, id)
  if record then return { CLOCK_MICROS, (loaded(id, attempt, record, find_named)) } end
  look_up(id, topic)
  return {}
end

local function transition()
  local reply, are_numbers = put_all(left)
  return are_numbers and { table.concat(reply, ' ') } or reply
end

--- @include "shared/each_bucket"
