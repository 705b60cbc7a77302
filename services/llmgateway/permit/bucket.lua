-- The buckets of a group: 1 requests, 2 tokens, 3 input tokens, 4 output tokens, each per minute; a limit of 0 is none. A
-- bucket holds a tenth of its limit and fills with nine tenths of it a minute, so that no 60 seconds see more than the limit.
-- A call that is larger than a bucket is admitted when the bucket is full, and leaves it below zero.

local minute = 60000

-- What a bucket holds: at least one request.
local function capacity(limit, d)
  if d == 1 then return math.max(1, limit / 10) end
  return limit / 10
end

-- Brings the levels up to date.
local function refill(levels, limits, elapsed)
  for d = 1, 4 do
    if limits[d] > 0 then
      levels[d] = math.min(capacity(limits[d], d), levels[d] + 0.9 * limits[d] * elapsed / minute)
    end
  end
end

-- Returns how long it takes until a need fits, in milliseconds; 0 if it does. Ahead is what must be left for others.
local function delay(levels, limits, need, ahead)
  local longest = 0
  for d = 1, 4 do
    if limits[d] > 0 and need[d] > 0 then
      local lacking = math.min(need[d], capacity(limits[d], d)) + ahead[d] - levels[d]
      if lacking > 1e-6 then longest = math.max(longest, lacking * minute / (0.9 * limits[d])) end
    end
  end
  return math.ceil(longest)
end

local function draw(levels, limits, need)
  for d = 1, 4 do
    if limits[d] > 0 then levels[d] = levels[d] - need[d] end
  end
end

-- Gives back what was not used, or takes what was used beyond the estimate.
local function correct(levels, limits, back)
  for d = 1, 4 do
    if limits[d] > 0 then levels[d] = math.min(capacity(limits[d], d), levels[d] + back[d]) end
  end
end

-- Returns the part of a minute's limits that a need takes: that of the limit of which it takes most.
local function weight(limits, need)
  local most = 0
  for d = 1, 4 do
    if limits[d] > 0 then most = math.max(most, need[d] / limits[d]) end
  end
  return most
end
