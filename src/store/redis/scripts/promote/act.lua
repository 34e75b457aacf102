-- Reads the earliest overdue jobs of a set. Returns their number, the number of each outcome, and the members that join
-- the ready set (nil for other jobs, whose changes are gathered). Writes nothing.
local function read(set, state, topic, most)
  -- A score may be a fraction above its time.
  local before = '(' .. string.format('%d', NOW + 1)
  local found = redis.call('ZRANGE', set, '-inf', before, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  if #found == 0 then return 0 end
  if state == 'delayed' then return #found / 2, promote_delayed(topic, found) end
  local counts = promotions()[state](topic, found)
  promotions().prove_types()
  return #found / 2, counts
end

-- Acts on up to `most` jobs of a set that is due, and tells the timer when the set is due next.
local function act(set_name, state, topic, most)
  local set, deadlines = key(state, topic), state == 'delayed' and BUCKET or ENDS
  local sound, jobs, counts, ready = pcall(read, set, state, topic, most)
  -- Needs no memory and changes nothing: see prelude.lua.
  redis.call('ZREM', deadlines, '')
  if not sound then
    discard()
    if string.find(error_text(jobs), '^NOPERM') then error(jobs, 0) end
    -- A key of this topic has the wrong type. Other topics are not affected; this one is tried again in a minute.
    redis.call('ZADD', deadlines, NOW + 60000, set_name)
    return
  end
  if jobs > 0 then
    redis.call('ZREMRANGEBYRANK', set, 1, 0)
    if ready then redis.call('ZADD', key('ready', topic), unpack(ready)) else promotions().commit(true) end
    has_written = true
    -- `promotions().expiring` removes jobs from their set one by one, because a job may expire later than its score.
    if state ~= 'expiring' then redis.call('ZREMRANGEBYRANK', set, 0, jobs - 1) end
    add_figures(topic, counts)
    for target, jobs in pairs(counts.targets or {}) do add_figures(target, jobs) end
    if state == 'dead' or state == 'finished' or (counts.moved or 0) > 0 then forget_if_empty(topic) end
  end
  spend(state, jobs)
  local _, score = unpack(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES'))
  if score then
    if not is_plain_time(score) and is_score(state, score) then score = time_of(state, score) end
    redis.call('ZADD', deadlines, score, set_name)
  else
    redis.call('ZREM', deadlines, set_name)
  end
end
