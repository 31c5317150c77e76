-- release_lock.lua: gives our lock up; another's stays.   KEYS lock   ARGV holder   -> 1 released, 0 not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
