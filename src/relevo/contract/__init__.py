"""What is said over HTTP, as types: the one description that the server, the client and the OpenAPI document share.

One resource a file. What is sent is a `RequestBody` and refuses fields that it does not know; what is answered is a frozen
struct and ignores them, so that an older client can read a newer server. Times are milliseconds since 1970 unless a field says
otherwise.
"""
