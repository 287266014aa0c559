CREATE TABLE accounts (
    id text PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0)
);
INSERT INTO accounts VALUES ('ann', 100), ('bob', 100);
