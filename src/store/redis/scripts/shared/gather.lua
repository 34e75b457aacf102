-- Gathers writes while a transition reads and checks; commit.lua then performs them.

-- By '<state>:<topic>': ids of jobs that leave the set; score and id of each job that joins it; the earliest time of these.
local leaving, joining, earliest
-- Topics that have lost jobs, and topics that may be new to the bucket.
local shrunk, registered
-- Fields by hash ('attempt', 'record', 'body' or 'history'): ids to erase; id and text of each field to save.
local erased, saved

local function discard_gathered()
  leaving, joining, earliest, shrunk, registered = {}, {}, {}, {}, {}
  erased = { attempt = {}, record = {}, body = {}, history = {} }
  saved = { attempt = {}, record = {}, body = {}, history = {} }
end
discard_gathered()
discard = discard_gathered

local function save(hash, id, text)
  local fields = saved[hash]
  fields[#fields + 1], fields[#fields + 2] = id, text
end

local function erase(hash, id)
  local ids = erased[hash]
  ids[#ids + 1] = id
end

local function register_topic(topic)
  registered[topic] = true
end

local function topic_shrinks(topic)
  shrunk[topic] = true
end

-- If the job then joins the same set, it stays there.
local function leave_set(state, topic, id)
  if not state then return end
  local set = state .. ':' .. topic
  local ids = leaving[set] or {}
  ids[#ids + 1], leaving[set] = id, ids
end

local function add_member(state, topic, id, time, score)
  local set = state .. ':' .. topic
  local members = joining[set] or {}
  members[#members + 1], members[#members + 2], joining[set] = score, id, members
  local ids = leaving[set]
  if ids and ids[#ids] == id then ids[#ids] = nil end
  if state ~= 'ready' then earliest[set] = math.min(earliest[set] or math.huge, time) end
end

local function is_sorted_set(name)
  return type(redis.pcall('ZCARD', name)) == 'number'
end

-- `time`: the job's due time, or its deadline when reserved, dead or finished. `rules` are those of the job; without
-- them it has the standard priority and does not expire.
local function join_set(state, topic, id, time, rules)
  if not rules then return add_member(state, topic, id, time, time) end
  add_member(state, topic, id, time, score_of(state, time, rules))
  if rules.expires_at and (state == 'delayed' or state == 'ready') then
    add_member('expiring', topic, id, rules.expires_at, rules.expires_at)
  end
end

-- Removes a job with these rules from the jobs that expire: it is no longer delayed, ready or reserved.
local function leave_expiring(topic, id, rules)
  if rules and rules.expires_at then leave_set('expiring', topic, id) end
end

-- Removes the job with all its records.
local function remove_job(id, state, topic, has_history, rules)
  leave_set(state, topic, id)
  leave_expiring(topic, id, rules)
  erase('attempt', id)
  erase('record', id)
  erase('body', id)
  if has_history then erase('history', id) end
  if topic then topic_shrinks(topic) end
end
