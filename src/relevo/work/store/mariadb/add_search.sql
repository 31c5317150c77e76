-- %s scope, attribute, message; what is there already stays
INSERT IGNORE INTO relevo_store_search (scope_id, attribute, id) VALUES (%s, %s, %s)
