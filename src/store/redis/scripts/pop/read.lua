-- Reads the record of a job that is about to be popped.

-- Captures where the rules begin, what RULES captures, and where the body begins.
local HEADER = '^4 %x+ ()' .. RULES .. '()'
local LONGEST_TTR = 86400000
-- The TTR of a policy without one. Mirrored in job/policy.rs.
local DEFAULT_TTR = 60000

local function ttr_of(policy)
  if policy == '' then return DEFAULT_TTR end
  local text = string.match(';' .. policy, ';t=(%d+)')
  return math.min(tonumber(text) or DEFAULT_TTR, LONGEST_TTR)
end

-- When the job of a policy expires; nil if never.
local function expires_at_of(policy)
  if not string.find(policy, 'e=', 1, true) then return nil end
  return tonumber(string.match(';' .. policy, ';e=(%d+)'))
end

-- Whether a job that expires at this time has expired, according to believed().
local function has_expired(expires_at)
  time_of_expiry = time_of_expiry or math.floor(believed(string.sub(ARGV[2], 15)) / 1000)
  return expires_at <= time_of_expiry
end

-- The texts of a ready job that has expired. Only here, the functions of loaded.lua are needed.
local function load_expired(id, record, topic, score)
--- @include "shared/loaded"
  return (loaded(id, redis.call('HGET', ATTEMPTS, id), record, function() return topic, 'ready', score end))
end

-- Handles a record that does not name the topic whose set has its id. Returns the same values as `read`.
local function read_misplaced(id, record, rules, named, topic)
  if not (rules and tools().parse_rules(id, rules)) then
    return record, tools().rules_of_damaged(id, topic), DEFAULT_TTR
  end
  -- The id is in this set by mistake: its job belongs to another topic, and may be in no set there.
  if not tools().state_of(named, id) then
    tools().join_set('ready', named, id, NOW, tools().parse_rules(id, rules))
    tools().register_topic(named)
  end
  return nil
end

-- The record with its body, the job's rules and its own TTR; nil if the job does not belong to the topic, or has
-- expired: it then stays in the set, and the core decides on it. `score` is that of the job in the ready set.
local function read(id, record, topic, score)
  local first, length, policy, named, last = string.match(record, HEADER)
  local rules = first and string.sub(record, first, last - 2)
  if named ~= topic then return read_misplaced(id, record, rules, named, topic) end
  local expires_at = policy ~= '' and expires_at_of(policy)
  if expires_at and has_expired(expires_at) and tools().parse_rules(id, rules) then
    passed.count, passed[id] = passed.count + 1, true
    if loads_left > 0 then
      local last = #expired
      expired[last + 1], expired[last + 2] = id, load_expired(id, record, topic, score)
      loads_left = loads_left - 1
    end
    return nil
  end
  if tonumber(length) > MAX_INLINE_BODY then
    local body = redis.call('HGET', BODIES, id)
    if body then
      record = record .. body
    elseif redis.call('EXISTS', BODIES) == 0 and tools().parse_rules(id, rules) then
      body_is_elsewhere, any_body_is_elsewhere = true, true
    end
  end
  return record, rules, ttr_of(policy)
end
