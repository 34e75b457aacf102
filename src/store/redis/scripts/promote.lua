-- Acts on overdue deadlines: delayed -> ready; reserved -> ready, delayed or dead; dead -> gone.
-- ARGV  2 limit, 3 what the caller believes of the clock: see believed()
-- Reply next deadline ('' if none), now and the clock in microseconds, then for each topic: topic, number of jobs that
--       became ready, whose TTR expired, that died, that are gone
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, 'orders', 12, 1, 0, 0}

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "promote/jobs"
--- @include "promote/budget"

-- The earliest overdue jobs of a set and what becomes of them. Writes nothing.
local function read(state, topic, most)
  -- A score may be a fraction above its time.
  local before = '(' .. string.format('%d', NOW + 1)
  local found = redis.call('ZRANGE', key(state, topic), '-inf', before, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  local ids, scores, counts = {}, {}, {}
  for n = 1, #found, 2 do
    ids[#ids + 1], scores[#scores + 1] = found[n], found[n + 1]
  end
  if #ids > 0 then counts = promote[state](topic, ids, scores) end
  prove_types()
  return ids, counts
end

-- Acts on up to `most` jobs of a set that is due, and tells the timer when the set is due next.
local function act(set_name, state, topic, most, figures)
  local set, sound, ids, counts = key(state, topic), pcall(read, state, topic, most)
  -- Needs no memory and changes nothing: see prelude.lua.
  redis.call('ZREM', BUCKET, '')
  if not sound then
    discard_gathered()
    if string.find(error_text(ids), '^NOPERM') then error(ids, 0) end
    -- A key of this topic has another type. The other topics go on; this one is tried again in a minute.
    redis.call('ZADD', BUCKET, NOW + 60000, set_name)
    return
  end
  if #ids > 0 then redis.call('ZREMRANGEBYRANK', set, 1, 0) end
  commit(true)
  if #ids > 0 then
    redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
    figures.add(topic, counts)
    if state == 'dead' then forget_if_empty(topic) end
  end
  spend(state, #ids)
  local head = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', BUCKET, is_score(state, head[2]) and time_of(state, head[2]) or head[2], set_name)
  else
    redis.call('ZREM', BUCKET, set_name)
  end
end

-- The sets that are due, the earliest first: those of delayed jobs, and the others.
local function due_sets()
  local delayed, others = {}, {}
  for _, set_name in ipairs(redis.call('ZRANGE', BUCKET, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 500)) do
    local state, topic = string.match(set_name, '^(%l+):(.+)$')
    local list = state == 'delayed' and delayed or others
    if not promote[state] then
      redis.call('ZREM', BUCKET, set_name)
    elseif #list < 32 then
      list[#list + 1] = { set_name, state, topic }
    end
  end
  return delayed, others
end

-- Counts the promoted jobs of the call by topic, in the order in which topics came.
local function new_figures()
  local by_topic, topics = {}, {}
  local function add(topic, counts)
    if not by_topic[topic] then
      by_topic[topic] = { ready = 0, expired = 0, dead = 0, gone = 0 }
      topics[#topics + 1] = topic
    end
    for name, jobs in pairs(counts) do by_topic[topic][name] = by_topic[topic][name] + jobs end
  end
  local function append_to(reply)
    for _, topic in ipairs(topics) do
      local counts = by_topic[topic]
      for _, value in ipairs({ topic, counts.ready, counts.expired, counts.dead, counts.gone }) do
        reply[#reply + 1] = value
      end
    end
  end
  return { add = add, append_to = append_to }
end

local function transition()
  -- After a jump of the clock, now is the time that the caller believes: see store/clock_watch.rs.
  NOW_MICROS = believed(ARGV[3])
  NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)
  local figures, delayed, others = new_figures(), due_sets()
  begin_budget(tonumber(ARGV[2]), #others > 0)
  for _, sets in ipairs({ delayed, others }) do
    for n, set in ipairs(sets) do
      local set_name, state, topic = unpack(set)
      local is_last = n == #sets and FOLLOWING == 0 and (sets == others or #others == 0)
      local most = budget_of(state, is_last)
      if most > 0 then act(set_name, state, topic, most, figures) end
    end
  end
  end_budget()

  local head = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')
  local reply = { head[2] or '', NOW_MICROS, CLOCK_MICROS }
  figures.append_to(reply)
  return reply
end

--- @include "shared/each_bucket"
