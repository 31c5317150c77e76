-- ? scope, attribute, message; what is there already stays
INSERT OR IGNORE INTO relevo_store_search (scope_id, attribute, id) VALUES (?, ?, ?)
