-- Finds jobs of one topic and state in the order of their scores, and those of them that match a filter.
--
-- ARGV  2 topic, 3 state, 4 limit, 5 score and 6 id of the job to begin after ('' and '' from the beginning), 7 the time
--       to begin with ('' for any), 8 the time to end before ('' for none). After these, only if jobs are to be compared
--       with a filter: 9 a text within the id, 10 a text within the last error; 11 and 12 the times between which they
--       died, 13 and 14 those between which they were due; '' for any

-- The most jobs that a call compares with a filter (mirrored in store/filter.rs), and the most whose records it reads.
local MOST_EXAMINED, MOST_READ = 500, 250

-- Whether one text follows another in the order of their bytes, as in sorted sets; Lua's own operator depends on the
-- locale of the server.
local function is_behind(one, other)
  for i = 1, math.min(#one, #other) do
    local byte, other_byte = string.byte(one, i), string.byte(other, i)
    if byte ~= other_byte then return byte > other_byte end
  end
  return #one > #other
end

local function rank_of(set, score)
  return redis.call('ZCOUNT', set, '-inf', '(' .. score)
end

-- The rank of the first member after (score, id). Members of one score are in the order of their bytes, so this is a
-- binary search; the job `id` may no longer exist.
local function rank_behind(set, score, id)
  if score == '' then return 0 end
  local low, high = rank_of(set, score), redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', set, middle, middle)[1], id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function priority_at(set, rank)
  local score = redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2]
  return score and priority_of_ready(tonumber(score))
end

-- The ranges of ranks of jobs in a range of times, as pairs of the first rank and the one after the last. Ready jobs
-- have one range for each priority.
local function ranges_of_times(set, state, from, before)
  if from == '' and before == '' then return { { 0, redis.call('ZCARD', set) } } end
  local ranges, highest, lowest = {}, STANDARD_PRIORITY, STANDARD_PRIORITY
  if state == 'ready' then
    highest = priority_at(set, 0) or highest
    lowest = priority_at(set, -1) or lowest
  end
  for priority = highest, lowest, -1 do
    local begin = score_of('ready', 0, { priority = priority })
    local first_time, end_of_times = tonumber(from) or 0, tonumber(before) or PRIORITY_STEP
    ranges[#ranges + 1] = {
      rank_of(set, string.format('%.0f', begin + first_time)), rank_of(set, string.format('%.0f', begin + end_of_times))
    }
  end
  return ranges
end

-- Ids and scores of up to `limit` jobs from this rank on.
local function members_in(set, ranges, first, limit)
  local found = {}
  for _, range in ipairs(ranges) do
    local low, left = math.max(range[1], first), limit - #found / 2
    local high = math.min(range[2], low + left)
    if low < high then
      for _, value in ipairs(redis.call('ZRANGE', set, low, high - 1, 'WITHSCORES')) do found[#found + 1] = value end
    end
  end
  return found
end

local function is_within(time, from, before)
  return time ~= nil and time >= (tonumber(from) or 0) and time < (tonumber(before) or math.huge)
end

-- Whether a time in an attempt record, which the pattern captures, is between two times. Few records match, so only
-- these are parsed.
local function has_time(text, pattern, name, from, before)
  if from == '' and before == '' then return true end
  if not text or not is_within(number(string.match(text, pattern)), from, before) then return false end
  local attempt = parse_attempt(text)
  return attempt ~= nil and is_within(attempt[name], from, before)
end

-- Whether the last error in an attempt record contains a text; its checksum is not searched.
local function has_error(text, part)
  if part == '' then return true end
  if not text or not string.find(text, part, 1, true) then return false end
  local attempt = parse_attempt(text)
  return attempt ~= nil and string.find(attempt.error, part, 10, true) ~= nil
end

-- Whether a finished job was due between the times of the filter.
local function was_due(id, record)
  local _, ended = parse_record(id, record or '')
  return ended ~= nil and is_within(ended.due, ARGV[13], ARGV[14])
end

-- The values of a hash for these members, which alternate with scores; none if no condition needs them.
local function values_of(hash, members, is_needed)
  if not is_needed or #members == 0 then return {} end
  local ids = {}
  for n = 1, #members, 2 do ids[#ids + 1] = members[n] end
  return redis.call('HMGET', hash, unpack(ids))
end

-- The jobs among these members that match, up to `limit`, as ids and scores, and how many jobs were examined.
local function matching(members, state, limit)
  local is_finished_due = state == 'finished' and (ARGV[13] ~= '' or ARGV[14] ~= '')
  local texts = values_of(ATTEMPTS, members, ARGV[10] .. ARGV[11] .. ARGV[12] .. ARGV[13] .. ARGV[14] ~= '')
  local records, found = values_of(POOL, members, is_finished_due), {}
  for n = 1, #members, 2 do
    local id, text = members[n], texts[(n + 1) / 2]
    if (ARGV[9] == '' or string.find(id, ARGV[9], 1, true)) and has_error(text, ARGV[10])
      and has_time(text, '^%d+ %d+h?s? %S+ %d+ (%d+) ', 'died', ARGV[11], ARGV[12])
      and (is_finished_due and was_due(id, records[(n + 1) / 2])
        or not is_finished_due and has_time(text, '^%d+ %d+h?s? %S+ (%d+) ', 'due', ARGV[13], ARGV[14])) then
      found[#found + 1], found[#found + 2] = id, members[n + 1]
      if #found == 2 * limit then return found, (n + 1) / 2 end
    end
  end
  return found, #members / 2
end

-- Ids and scores of the next jobs, at most `limit`; how many jobs were examined, and id and score of the last of these
-- (nil if no more jobs follow).
local function select_jobs(limit)
  local state, is_filtered, most = ARGV[3], ARGV[9] ~= nil, limit
  local set = key(state, ARGV[2])
  if is_filtered then most = state == 'finished' and MOST_READ or MOST_EXAMINED end
  local ranges = ranges_of_times(set, state, ARGV[7], ARGV[8])
  local members = members_in(set, ranges, rank_behind(set, ARGV[5], ARGV[6]), most)
  local found, examined = members, #members / 2
  if is_filtered then found, examined = matching(members, state, limit) end
  if 2 * examined == #members and examined < most then return found, examined end
  return found, examined, members[2 * examined - 1], members[2 * examined]
end

-- Adds the position of a job to a reply: its id, its time, and its score if that is not its time (else ''). Without a
-- job, the id is ''.
local function add_position(reply, state, id, score)
  local last, time = #reply, id and time_of(state, score) or 0
  reply[last + 1], reply[last + 2] = id or '', time
  reply[last + 3] = (not id or score == string.format('%d', time)) and '' or score
end
