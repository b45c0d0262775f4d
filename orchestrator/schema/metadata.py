"""The common definitions of all tables for SQLAlchemy."""

from sqlalchemy import DateTime, MetaData, text

metadata = MetaData(schema="orchestrator")
CLOCK = text("orchestrator.clock()")
MOMENT = DateTime(timezone=True)
