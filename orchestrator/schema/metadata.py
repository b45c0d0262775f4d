"""What all tables for SQLAlchemy have in common."""

from sqlalchemy import DateTime, MetaData, text

metadata = MetaData(schema="orchestrator")
CLOCK = text("orchestrator.clock()")
MOMENT = DateTime(timezone=True)
