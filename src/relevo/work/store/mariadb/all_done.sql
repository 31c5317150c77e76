-- An error, which keeps what follows from being done, unless the statement before has changed so many rows: how many
SELECT IF(ROW_COUNT() = %s, 0, (SELECT 1 UNION SELECT 2))
