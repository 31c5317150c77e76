"""From the call to Redis: `job_encoder` checks and encodes a job, `stream_writer` writes plain ones and gives
the rest to `scripted_adds`.

In: a name, data and options. Out: an entry of the stream, or a member of the delayed set or of a lane. Next: `consuming`.
"""
