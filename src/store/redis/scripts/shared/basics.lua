-- Begins every script that works on buckets. Creating a function takes a large part of the time of a short script, so this
-- file has only what each of them needs; prelude.lua adds what most of them use.
--
-- A call runs the same transition in several buckets of one server. Each script defines `transition`, and
-- each_bucket.lua calls it for every bucket; a bucket that fails does not affect the others.
--
-- KEYS  for each bucket: pool, attempts, bucket, ends, topics, bodies, and a key that never exists. keys.rs says what
--       each holds. The names of topics' sorted sets begin with the pool's hash tag, so all keys of a bucket share a slot.
--       While a cluster moves that slot to another node, access to a key that has moved fails in the middle of a
--       script, and earlier writes stay. The key that never exists prevents this: during the move, Redis refuses to
--       begin a script if one of its KEYS is missing.
-- ARGV  1 now in ms, or '' for this Redis' clock. Then the arguments of each bucket, and at the end the number of
--       arguments of each bucket. A transition sees now as ARGV[1], followed by its own bucket's arguments.
-- Reply for each bucket: the transition's reply, or an error; after an error nothing was written to that bucket, unless
--       the error begins with PARTLY.
--
-- A job is in exactly one of its topic's sorted sets; that set is its state. Scripts first read and check, then write
-- (commit.lua). No job is left between two writes: records are parsed before, and keys are known to have the right type.
-- A batch whose jobs are not all written together may fail at a later one: see has_written.
--
-- A user's rights may be withdrawn at any time, and writes before a refused command stay. So each command that removes
-- something first runs once in a form that changes nothing (a member or field '' never exists), and a job joins its new
-- set before it leaves the old one. The first of these commands needs no memory: a full Redis checks memory only until
-- the first write of a script, so it then accepts the later ones too. A transition that adds bytes therefore begins with
-- a command that may need memory: see swap.lua.
--
-- codec.rs defines the form of records. Scripts check records before they act on them. A job with an unreadable record
-- loses its attempts or becomes dead; other jobs are not affected.

local CALL, ARGV = ARGV, nil
local POOL, ATTEMPTS, BUCKET, TAG
-- The deadlines of sets of delayed jobs are in BUCKET, those of all other sets here.
local ENDS
-- The number of buckets of the call that come after this one.
local FOLLOWING
-- The names of topics with jobs in this bucket, and bodies that are too long for their records.
local TOPICS, BODIES
-- Whether the transition has changed jobs of its bucket. Scripts set this where a command follows that may be refused:
-- the error then begins with PARTLY, so that no caller is told that nothing was changed.
local has_written
-- Budgets that the buckets of a call share.
local shared = {}
-- Discards the writes that a failed bucket has gathered; gather.lua replaces it.
local discard = function() end

-- The states in the order in which a job is looked for, and their codes in replies. A unit test compares both with
-- job/state.rs.
local STATES = { 'reserved', 'ready', 'delayed', 'dead', 'finished' }
local STATE_CODE = { delayed = 1, ready = 2, reserved = 3, dead = 4, finished = 5 }
-- The text of an error, beginning with its code. Since Redis 7.2 an error is a table; Redis 7.0 and 7.1 have no code of
-- their own for a missing right.
local function error_text(problem)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  if not string.find(text, '^%u+ ') then text = 'ERR ' .. text end
  return (string.gsub(text, '^ERR (The user executing the script)', 'NOPERM %1'))
end

local function key(state, topic)
  return TAG .. state .. ':' .. topic
end
