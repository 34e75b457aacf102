-- absent -> delayed or ready; a living id is refused, kept or replaced.
-- ARGV  per job: id, topic, schedule (see due_time), rest of its record, 'reject' | 'keep' | 'replace'
-- Reply per job: if created, twice the due time, and one more if it is ready; or refusal; or
--       {1 kept | 2 replaced, state, due time, the topic if kept ('')}
--       e.g. {3527380120001, -2, {1, 3, 1763690060000, 'orders'}}
local reply, replaced = {}, {}
local version_and_time = '1 ' .. string.format('%d', NOW) .. ' '
-- By topic: jobs whose record is written, on their way into its sets, together.
local created = {}

local function place_created()
  for topic, of in pairs(created) do
    if #of.ready > 0 then redis.call('ZADD', key('ready', topic), unpack(of.ready)) end
    if #of.delayed > 0 then
      redis.call('ZADD', key('delayed', topic), unpack(of.delayed))
      redis.call('ZADD', BUCKET, 'LT', of.earliest, 'delayed:' .. topic)
    end
    redis.call('ZADD', TOPICS, 0, topic)
  end
  created = {}
end

local function create(id, topic, due)
  local of = created[topic] or { ready = {}, delayed = {}, earliest = math.huge }
  local state = due <= NOW and 'ready' or 'delayed'
  local set = of[state]
  set[#set + 1], set[#set + 2] = due, id
  if state == 'delayed' then of.earliest = math.min(of.earliest, due) end
  created[topic] = of
  return due * 2 + (state == 'ready' and 1 or 0)
end

local function conflict(id, topic, due, record, on_conflict)
  local living = find(id)
  if on_conflict == 'reject' or not living then return EXISTS end
  local state, score = state_of(living.topic, id)
  -- A job in no set is not alive, whatever its record says: it is replaced.
  if on_conflict == 'keep' and state then
    local held_or_dead = state == 'reserved' or state == 'dead'
    return { 1, STATE_CODE[state], held_or_dead and living.due or score, living.topic }
  end
  if state == 'reserved' then return RESERVED end
  take(living.topic, id)
  redis.call('HDEL', ATTEMPTS, id)
  redis.call('HSET', POOL, id, record)
  redis.call('ZADD', TOPICS, 0, topic)
  replaced[living.topic] = true
  return { 2, STATE_CODE[place_due(topic, id, due)], due, '' }
end

for i = 2, #ARGV, 5 do
  local id, topic, rest, on_conflict = ARGV[i], ARGV[i + 1], ARGV[i + 3], ARGV[i + 4]
  local due = due_time(ARGV[i + 2])
  local record, answer = version_and_time .. rest, DUE_TOO_FAR
  if due and redis.call('HSETNX', POOL, id, record) == 1 then
    answer = create(id, topic, due)
  elseif due then
    place_created()
    answer = conflict(id, topic, due, record, on_conflict)
  end
  reply[#reply + 1] = answer
end
place_created()
for topic in pairs(replaced) do leave(topic) end
return reply
