-- Removes jobs from their sets; `missing` of them are not in the reserved set of the topic.
local function leave_other_sets(topic, ids, missing)
  local tools, rest = tools(), {}
  for _, id in ipairs(ids) do
    local state = tools.state_of(topic, id)
    if state then
      tools.leave_set(state, topic, id)
      missing = missing - 1
    else
      rest[#rest + 1] = id
    end
  end
  -- A damaged record may name a topic that does not have the job.
  for _, id in ipairs(missing > 0 and rest or {}) do
    local found, state = tools.search_topics(id)
    tools.leave_set(state, found, id)
    if found then tools.topic_shrinks(found) end
  end
  tools.commit()
end
