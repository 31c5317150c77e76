-- Of a message that is completed without a result: the whole of the parts that its claim sent, if the last has come.
SELECT body FROM relevo_store_chunks
WHERE message_id = relevo_store_messages.id AND number = 0 AND claim_token = relevo_store_messages.claim_token
