-- Puts of jobs that are new or exist.

local VERSION_AND_TIME = string.format('4 %07x%04x%04x ', math.floor(NOW / 65536), NOW % 65536, NOW % 65521)

-- The number of jobs of a run, its topic and schedule, its word for existing ids, whether long bodies follow, the priority
-- (nil is the standard one), and whether the jobs expire.
local function read_run(i)
  local on_conflict = ARGV[i + 3]
  local last, is_long, priority, expires = string.byte(on_conflict, -1), false, nil, false
  if last < 97 then -- no letter
    local word, plus, digit, mark = string.match(on_conflict, '^(%l+)(%+?)(%d?)(!?)$')
    on_conflict, is_long, priority, expires = word, plus ~= '', tonumber(digit), mark ~= ''
  end
  return tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], on_conflict, is_long, priority, expires
end

-- Fails before anything is written if a key has another type, or if this user may not read the keys that `conflict` reads.
-- A call with an existing id needs this, because `conflict` reads and writes in the middle of the call, and only created
-- jobs can be removed again. `i` is the index of the first run.
local function prove_all(i)
  redis.call('ZSCORE', BUCKET, '')
  redis.call('ZCARD', ENDS)
  redis.call('ZRANGE', BUCKET, 0, 0)
  redis.call('HGET', ATTEMPTS, '')
  redis.call('HEXISTS', BODIES, '')
  while i <= #ARGV do
    local jobs, topic, _, _, is_long, _, expires = read_run(i)
    redis.call('ZCARD', key('ready', topic))
    redis.call('ZCARD', key('delayed', topic))
    if expires then redis.call('ZCARD', key('expiring', topic)) end
    i = i + (is_long and 4 + jobs or 4)
  end
end

local function has_repeated_or_living(ids, living)
  local seen = {}
  for n, id in ipairs(ids) do
    if living[n] or seen[id] then return true end
    seen[id] = true
  end
  return false
end

-- Puts the jobs in ARGV; put.lua describes the arguments and the replies. Also returns whether all replies are numbers.
local function put_all()
  local ids, reply, count = {}, {}, tonumber(ARGV[2])
  for n = 1, count do ids[n] = ARGV[1 + 2 * n] end
  if count == 0 then return reply, false end
  local living = redis.call('HMGET', POOL, unpack(ids))
  clear_created()
  local i, first = 3 + 2 * count, 1
  -- The ids that the call has created; false if all ids are new, so that no list is needed.
  local created_ids = has_repeated_or_living(ids, living) and {}
  if created_ids then prove_all(i) end

  while first <= count do
    local jobs, topic, schedule, on_conflict, is_long, priority, expires = read_run(i)
    i = i + 4
    local due, state = due_time(schedule)
    -- Redis accepts a score as text faster than as a number.
    local score, set = due and string.format('%d', due), due and key(state, topic)
    if due and priority then score = score_text(score_of(state, due, { priority = priority })) end
    for n = first, first + jobs - 1 do
      local id, record, body = ids[n], VERSION_AND_TIME .. ARGV[2 + 2 * n], is_long and ARGV[i + n - first]
      local expires_at = nil
      if due and expires then record, expires_at = tools().with_expiry(id, record, due) end
      if not due then
        reply[n] = DUE_TOO_FAR
      elseif living[n] or created_ids and created_ids[id] then
        write_created()
        reply[n] = conflict(id, topic, due, state, record, body, on_conflict)
      else
        if created_ids then created_ids[id] = true end
        create(id, state, topic, set, due, score, record, body)
        if expires_at then create_expiring(id, topic, expires_at) end
        reply[n] = state == 'ready' and due * 2 + 1 or due * 2
      end
    end
    first = first + jobs
    if is_long then i = i + jobs end
  end
  write_created()
  return reply, not created_ids
end
