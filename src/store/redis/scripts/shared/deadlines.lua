-- The key that has the deadline of a set.
local function deadlines_of(set)
  return string.find(set, '^delayed:') and BUCKET or ENDS
end
